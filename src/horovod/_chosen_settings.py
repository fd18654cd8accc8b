"""What users have chosen by several variables together, or by not setting one."""

from collections.abc import Mapping

from horovod import _settings


def wishes_for_mpi(environment: Mapping[str, str]) -> bool:
    """Whether Horovod's variable alone chooses MPI, which counts in a job that MPI has started."""
    return (
        _settings.CPU_OPERATIONS.read(environment) == "mpi"
        and _settings.TRANSPORT.read(environment) == "auto"
    )


def describe_other_transport(environment: Mapping[str, str], used: str) -> str:
    """What to tell a rank whose choice of a transport is not rank 0's, which counts.

    Args:
        environment: variables of the rank.
        used: what rank 0 has chosen, as the runtime names it.

    Returns:
        A line; "" where there is nothing to say.
    """
    by_horovods_name = wishes_for_mpi(environment)
    chosen = _settings.CPU_OPERATIONS if by_horovods_name else _settings.TRANSPORT
    own = chosen.read(environment)
    if own in ("auto", used):
        return ""
    return (
        f"{chosen.name}={own} has no effect on this rank: rank 0's value counts, by which {used}"
        " moves the bytes"
    )


def stall_times(environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds until rank 0 names ranks that others wait for, and until the job ends for it.

    Returns:
        Both times; 0 for never. The end comes with a warning, so it is never before it.
    """
    warning = _settings.STALL_CHECK_TIME.read(environment)
    shutdown = _settings.STALL_SHUTDOWN_TIME.read(environment)
    if _settings.STALL_CHECK_DISABLE.read(environment):
        return 0.0, 0.0
    if shutdown and (not warning or shutdown < warning):
        warning = shutdown
    return warning, shutdown


def control_fanout(environment: Mapping[str, str]) -> int | None:
    """How many ranks of its host, and hosts, one rank hears; None for what suits their number."""
    fanout = _settings.CONTROL_FANOUT.read(environment)
    return fanout if fanout >= 0 else None


def start_timeout(
    environment: Mapping[str, str], default: float = _settings.START_TIMEOUT.default
) -> float:
    """Seconds that ranks wait for each other: Horovod has two names for it.

    Args:
        environment: which may set it.
        default: what counts where it does not.
    """
    gloo = _settings.GLOO_TIMEOUT.read(environment)
    own = _settings.START_TIMEOUT.read(environment)
    if _settings.START_TIMEOUT.is_given(environment) and own:
        return own
    return gloo or default


def gather_time(environment: Mapping[str, str]) -> float | None:
    """Seconds that a request may stay for others; None where the user has not said so."""
    milliseconds = _settings.CYCLE_TIME.read(environment)
    return milliseconds / 1000 if _settings.CYCLE_TIME.is_given(environment) else None
