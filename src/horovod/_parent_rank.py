"""What a rank tells the processes that multiprocessing starts in it.

Children of the start methods "spawn" and "forkserver" import the rank's script anew, and so call
`hvd.init()` where it stands outside of `if __name__ == "__main__"`; loaders of data do so again.
Few of them communicate: nearly all ask for their rank, and a job that they formed would wait for
the children of other ranks, which need not be as many.
"""

import json
import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass

from horovod import _settings
from horovod._placement import Placement
from horovod._published_place import PublishedPlace, find_published

_OWN_PLACE = (_settings.RENDEZVOUS_PORT, _settings.ELASTIC_WORKER, _settings.RANK, _settings.SIZE)
_KEPT = 2  # so many of them are the same when an elastic job has been formed anew
_PACKAGES = ("multiprocessing", "multiprocess")  # the second pickles more, and is else the same

_published = PublishedPlace()


@dataclass(frozen=True)
class ParentRank:
    """The place of a rank, as its children know it.

    Attributes:
        process: id of the rank's process.
        mpi_threads: what MPI lets threads do, if the ranks have met through it.
        told: what the launcher has told the rank; who tells a child otherwise wants it elsewhere.
    """

    process: int
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    is_homogeneous: bool
    mpi_threads: int | None
    told: list[str | None]

    def describe(self) -> str:
        """Sentences for a process that has this place and is not the rank itself."""
        advice = (
            'Have the ranks alone communicate, under `if __name__ == "__main__":`.'
            if _started_by_multiprocessing()
            else "To run it alone, start it without HOROVOD_RANK, HOROVOD_SIZE and the like."
        )
        return (
            f"This process is not rank {self.rank}, but was started by it, process {self.process},"
            f" and has its variables; only such processes of all ranks could form a job. {advice}"
        )


def _told(environment: Mapping[str, str]) -> list[str | None]:
    told = [environment.get(setting.name) for setting in _OWN_PLACE]
    return told[:_KEPT] if told[1] else told


def tell_children(
    environment: MutableMapping[str, str],
    placement: Placement,
    *,
    is_homogeneous: bool,
    mpi_threads: int | None,
) -> None:
    """Leaves word for the children of this process, which has joined a job.

    Args:
        environment: that they inherit.
        placement: of this rank; a job of one rank, which stays alone, has nothing to tell.
        is_homogeneous: whether all hosts have the same number of ranks.
        mpi_threads: see `ParentRank`.
    """
    if placement.size == 1 and not _settings.ELASTIC.read(environment):
        tell_no_children(environment)  # what this process has inherited is not their place
        return
    place = ParentRank(
        os.getpid(),
        placement.rank,
        placement.size,
        placement.local_rank,
        placement.local_size,
        placement.cross_rank,
        placement.cross_size,
        is_homogeneous,
        mpi_threads,
        _told(environment),
    )
    text = json.dumps(asdict(place))
    environment[_settings.PARENT_RANK.name] = text
    _published.replace(text)


def tell_no_children(environment: MutableMapping[str, str]) -> None:
    """Takes the word back, when this process leaves its job."""
    environment.pop(_settings.PARENT_RANK.name, None)
    _published.withdraw()


def read_parent_rank(environment: Mapping[str, str]) -> ParentRank | None:
    """The rank in which multiprocessing has started this process.

    Returns:
        None if this process is no such child: it is a rank itself, a program that a rank runs, or
        has been told a place of its own.
    """
    return _read(environment) if _started_by_multiprocessing() else None


def describe_inherited_place(environment: Mapping[str, str]) -> str:
    """What to add where a start has failed, since this process has the place of another one.

    Returns:
        Sentences; "" for a process with a place of its own.
    """
    place = _read(environment)
    return "" if place is None else place.describe()


def _read(environment: Mapping[str, str]) -> ParentRank | None:
    text = environment.get(_settings.PARENT_RANK.name)
    if _started_by_fork_server() and (published := find_published(os.getppid())) is not None:
        text = published  # the server's environment is as old as the server
    if not text:
        return None
    try:
        place = ParentRank(**json.loads(text))
    except (TypeError, ValueError):  # nothing of ours
        return None
    if place.process == os.getpid() or place.told != _told(environment):
        return None
    return place


def _started_by_multiprocessing() -> bool:
    for package in _PACKAGES:
        process = sys.modules.get(f"{package}.process")  # a child has it, and few others need it
        # A spawned child has no parent process to multiprocessing before it has imported the
        # script, and the fork server never: that one imports what `set_forkserver_preload` names.
        if process is not None and (
            process.parent_process() is not None
            or hasattr(process.current_process(), "_inheriting")
        ):
            return True
    return _started_by_fork_server()


def _started_by_fork_server() -> bool:
    servers = [f"{package}.forkserver" for package in _PACKAGES]
    return any(server in word for word in sys.orig_argv[:4] for server in servers)
