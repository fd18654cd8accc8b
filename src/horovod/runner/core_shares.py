"""How many threads each rank's libraries compute on: ranks of a host share its cores.

Each library counts the cores of the whole host. With as many threads in each of several ranks, they
take turns on the cores and wait for those that have none; `torchrun` gives each process one.

The native library counts a rank's CPUs too (runtime/cpu_share.h), for how long it may spin: each
thread of a core by itself. A launcher does not load it.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

THREADS = "OMP_NUM_THREADS"  # PyTorch's, NumPy's and OpenMP's own


def usable_cores(root: Path = Path("/")) -> int:
    """Whole cores that processes of this one may use together, 1 or more.

    Threads that share a core (SMT) count once. No more than the control group's quota of CPU time
    comes to, of either version (https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max).

    Args:
        root: where /proc and /sys lie.
    """
    cores = _physical_cores(root, _allowed_cpus())
    return max(1, min([cores, *map(int, _quotas(root))]))


def share_of_cores(
    environment: Mapping[str, str], ranks: int, cores: Callable[[], int] = usable_cores
) -> dict[str, str]:
    """The variable that a rank gets besides; none where it is alone on its host, or has a value.

    Args:
        environment: of the rank.
        ranks: of its host.
        cores: likewise.
    """
    if ranks == 1 or environment.get(THREADS):
        return {}
    return {THREADS: str(max(1, cores() // ranks))}


def _allowed_cpus() -> Collection[int]:
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # not a Linux
        return range(os.cpu_count() or 1)


def _physical_cores(root: Path, cpus: Collection[int]) -> int:
    """Of some CPUs; each of which nothing is told counts as one."""
    return len(
        {
            _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or cpu
            for cpu in cpus
        }
    )


def _quotas(root: Path) -> Iterator[float]:
    """How many CPUs' time each of this process's control groups allows, where one has a bound."""
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if not path.startswith("/"):
            continue
        if path.startswith("/.."):  # it is outside of what the namespace shows, without a folder
            path = "/"
        if not controllers:
            yield from _quotas_of(mount, path)
        if "cpu" in controllers.split(","):
            yield from _quotas_of(mount / controllers, path)
            yield from _quotas_of(mount / "cpu", path)  # where others have the words turned round


def _quotas_of(tree: Path, path: str) -> Iterator[float]:
    """Of a group and those that it is in."""
    group = tree / path.lstrip("/")
    for folder in (group, *group.parents):
        yield from _quota(folder)
        if folder == tree:
            return


def _quota(folder: Path) -> Iterator[float]:
    words = _text(folder / "cpu.max").split() or [
        _text(folder / "cpu.cfs_quota_us"),
        _text(folder / "cpu.cfs_period_us"),
    ]
    if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]) > 0:
        yield int(words[0]) / int(words[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):  # also a name that cannot be said to the system
        return ""
