"""How many files and sockets the launcher may have open."""

import resource

PER_RANK = 4  # two connections to the store for a moment, two pipes of a worker's output
_SPARE = 128  # for whatever else is open


def allow_descriptors(ranks: int) -> str:
    """Raises the soft limit where a job's ranks would not fit below it.

    Many systems set it to 1,024 and leave the hard one far above.

    Args:
        ranks: of the job.

    Returns:
        What the user should know: "" or that the hard limit is too low.
    """
    needed = PER_RANK * ranks + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return ""
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most == needed:
        return ""
    return (
        f"The launcher needs about {needed} file descriptors for {ranks} ranks, but its hard limit"
        f" is {hard}; raise it (ulimit -Hn) if ranks cannot start."
    )
