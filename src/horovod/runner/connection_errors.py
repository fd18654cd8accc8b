"""What the launcher says of a host where no agent has come to work."""

from collections.abc import Iterable

# Exit codes of shells and of Python where a program, or a module, is not there or cannot run.
_NOT_FOUND = (1, 126, 127)


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, ranks))


def describe_end(
    hostname: str, code: int, ranks: Iterable[int], python: str, *, started: bool
) -> str:
    """A connection has ended before the ranks of its host.

    Args:
        hostname: of the host.
        code: the exit code of what made the connection.
        ranks: those whose end nobody has told.
        python: the path of the interpreter that the agent needs there.
        started: whether an agent has been heard of.
    """
    text = f"the connection to {hostname} ended with code {code} before its ranks {_listed(ranks)}"
    if started or code not in _NOT_FOUND:
        return f"{text} did"
    return (
        f"{text} did, without an agent: horovodrun runs {python} there; it, and horovod-variants"
        " for it, have to be there at the same path as here"
    )


def describe_lost_agent(hostname: str, ranks: Iterable[int]) -> str:
    """A host's agent has ended before its ranks; what made the connection goes on.

    Args:
        hostname: of the host.
        ranks: those whose end nobody has told.
    """
    return (
        f"the agent on {hostname} ended, though not the connection to it,"
        f" before its ranks {_listed(ranks)} did"
    )


def describe_silence(
    hostname: str, seconds: float, ranks: Iterable[int], program: str, *, started: bool
) -> str:
    """A host has not answered in time.

    Args:
        hostname: of the host.
        seconds: how long it has been waited for.
        ranks: its ranks.
        program: what makes the connection.
        started: whether an agent has been heard of.
    """
    limit = f"within {seconds:g} seconds (--start-timeout), so that its ranks {_listed(ranks)}"
    if started:
        return (
            f"the agent on {hostname} has got no order {limit} cannot start: does something that a"
            " login runs there, as ~/.bashrc, read standard input? The order comes by that"
        )
    return (
        f"{hostname} has not answered {limit} cannot start: does `{program} {hostname} true` work"
        " there?"
    )
