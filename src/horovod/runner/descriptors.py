"""How many files and sockets the launcher may have open."""

import resource

PER_RANK = 4  # two connections to the store for a moment, two pipes of a worker's output
_SPARE = 128  # for whatever else is open


def most_descriptors() -> int | None:
    """The soft limit; None where there is none, or nobody tells."""
    try:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:  # a container's filter refuses the question
        return None
    return None if soft == resource.RLIM_INFINITY else soft


def allow_descriptors(ranks: int) -> str:
    """Raises the soft limit where a job's ranks would not fit below it.

    Many systems set it to 1,024 and leave the hard one far above.

    Args:
        ranks: of the job.

    Returns:
        What the user should know: "" or that the limit is too low and why it stays so.
    """
    needed = PER_RANK * ranks + _SPARE
    soft = most_descriptors()
    if soft is None or needed <= soft:
        return ""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError) as error:
        return (
            f"The launcher needs about {needed} file descriptors for {ranks} ranks, but its"
            f" limit of {soft} stays ({error}); raise it (ulimit -n) if ranks cannot start."
        )
    if most == needed:
        return ""
    return (
        f"The launcher needs about {needed} file descriptors for {ranks} ranks, but its hard limit"
        f" is {hard}; raise it (ulimit -Hn) if ranks cannot start."
    )
