"""Process sets that communicators of mpi4py stand for: each rank names those it is a member of."""

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horovod import _objects
from horovod._collectives import COLLECTIVES
from horovod._mpi_jobs import numbers_in_world
from horovod._session import SESSION
from horovod.common.exceptions import HorovodInternalError


@dataclass(frozen=True)
class Named:
    """What one rank has named.

    Attributes:
        world_rank: its number in MPI's world; None if it has named no communicator.
        sets: of each process set whether it is a communicator, and its members in ascending order:
            numbers in MPI's world if so, else ranks of the job.
    """

    world_rank: int | None
    sets: tuple[tuple[bool, tuple[int, ...]], ...]


def is_communicator(given: object) -> bool:
    """Whether something is a communicator of mpi4py."""
    return hasattr(given, "Get_rank") and hasattr(given, "Get_group")


def world_ranks(communicator: Any) -> tuple[int, ...]:
    """The members of a communicator by their numbers in MPI's world, ascending.

    Raises:
        ValueError: it has no members, or some that were started by another launcher.
    """
    from mpi4py import MPI  # noqa: PLC0415 - whoever has a communicator has imported it

    if communicator == MPI.COMM_NULL:
        raise ValueError(
            "hvd.ProcessSet(MPI.COMM_NULL) has no members; a rank that is in none of the"
            " communicators leaves them out of its list"
        )
    numbers = numbers_in_world(communicator, range(communicator.Get_size()))
    if MPI.UNDEFINED in numbers:
        raise ValueError(
            f"hvd.ProcessSet({communicator.Get_name()}): {numbers.count(MPI.UNDEFINED)} of its"
            f" {len(numbers)} members were not started together with this rank"
        )
    return tuple(sorted(numbers))


def exchange(
    process_sets: Iterable[Any],
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], str]:
    """Joins what all ranks of the job have named; all of them call this at the same time.

    Args:
        process_sets: objects with `mpi_comm`, or None there and `ranks`.

    Returns:
        The ranks of each set of this rank; and of all sets of the job, alike on all ranks; and what
        `duplicate` says.

    Raises:
        ValueError: a communicator or a process set is not possible in this job.
        HorovodInternalError: a rank has not named a list of ranks that another has.
    """
    sets = tuple(
        (True, world_ranks(given.mpi_comm))
        if given.mpi_comm is not None
        else (False, tuple(given.ranks))
        for given in process_sets
    )
    world_rank = None
    if any(by_communicator for by_communicator, _ in sets):
        from mpi4py import MPI  # noqa: PLC0415 - as above

        world_rank = MPI.COMM_WORLD.Get_rank()
    everybody: list[Named] = _objects.allgather_object(Named(world_rank, sets), "process_sets")
    try:
        resolved = resolve(everybody)
        return resolved[SESSION.member.placement.rank], merge(resolved), duplicate(resolved)
    except (ValueError, HorovodInternalError):
        # All ranks raise the same; one that left the job now would take the answer from the others.
        with contextlib.suppress(HorovodInternalError):
            COLLECTIVES.barrier()
        raise


def resolve(everybody: Sequence[Named]) -> list[list[tuple[int, ...]]]:
    """The process sets of each rank by their ranks in the job.

    Args:
        everybody: what each rank of the job has named, by rank.

    Raises:
        ValueError: a member of a communicator has named none, or is not in the job.
        HorovodInternalError: a rank has not named a list of ranks that another has.
    """
    lists = [
        [ranks for by_communicator, ranks in named.sets if not by_communicator]
        for named in everybody
    ]
    for rank, listed in enumerate(lists):
        if listed != lists[0]:
            raise HorovodInternalError(
                "Attempted to add process sets with mismatching values on different ranks: rank 0"
                f" named {[list(ranks) for ranks in lists[0]]}, and rank {rank}"
                f" {[list(ranks) for ranks in listed]}. Lists of ranks are named alike on all"
                " ranks, communicators by their members."
            )
    known = {named.world_rank: rank for rank, named in enumerate(everybody)}
    return [
        [
            _in_the_job(members, known) if by_communicator else members
            for by_communicator, members in named.sets
        ]
        for named in everybody
    ]


def _in_the_job(members: Sequence[int], known: Mapping[int | None, int]) -> tuple[int, ...]:
    strangers = [member for member in members if member not in known]
    if strangers:
        raise ValueError(
            f"a communicator of the ranks {list(members)} of MPI's world is named in process_sets,"
            f" but rank {strangers[0]} of it is not in this job, or has named no communicator; each"
            " member passes hvd.ProcessSet(communicator) to hvd.init()"
        )
    return tuple(sorted(known[member] for member in members))


def merge(resolved: Sequence[Sequence[tuple[int, ...]]]) -> list[tuple[int, ...]]:
    """All process sets of a job but the global one: by their places in the ranks' lists, then rank.

    Args:
        resolved: the sets of each rank.
    """
    everyone = tuple(range(len(resolved)))
    by_place = itertools.chain.from_iterable(itertools.zip_longest(*resolved))
    return list(dict.fromkeys(ranks for ranks in by_place if ranks not in (None, everyone)))


def duplicate(resolved: Sequence[Sequence[tuple[int, ...]]]) -> str:
    """Says which rank has named the same members twice, or all ranks; "" if none has.

    Args:
        resolved: the sets of each rank.
    """
    everyone = tuple(range(len(resolved)))
    for rank, sets in enumerate(resolved):
        for place, ranks in enumerate(sets):
            if ranks == everyone or ranks in sets[:place]:
                return (
                    f"rank {rank} has named {list(ranks)}: a process set containing the same ranks"
                    " already exists"
                )
    return ""
