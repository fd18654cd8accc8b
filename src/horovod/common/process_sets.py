"""Process sets: which ranks take part in a collective, registered by `init()` or later."""

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from horovod import _communicator_sets
from horovod._collectives import COLLECTIVES
from horovod._session import SESSION


def _read_ranks(given: Iterable[int]) -> list[int]:
    """The ranks that somebody has named, ascending.

    Raises:
        ValueError: they are not whole numbers.
    """
    try:
        if not isinstance(given, str | bytes):
            return sorted(operator.index(rank) for rank in given)
    except TypeError:
        pass
    raise ValueError(
        "ProcessSet takes whole numbers, the ranks of its members, or a communicator of mpi4py, not"
        f" {given!r}"
    )


class ProcessSet:
    """A set of ranks.

    Args:
        ranks_or_comm: global ranks of the members in any order, named alike on all ranks; or a
            communicator of mpi4py, which its members name, in a job whose ranks have met through
            MPI.

    Attributes:
        process_set_id: 0 for the global set, None for one that is not registered.
        mpi_comm: the communicator, None if ranks were given.

    Raises:
        ValueError: it is something else.
    """

    def __init__(self, ranks_or_comm: Iterable[int] | Any) -> None:
        self._ranks: list[int] | None = None
        self.process_set_id: int | None = None
        self.mpi_comm: Any = None
        if _communicator_sets.is_communicator(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
        else:
            self._ranks = _read_ranks(ranks_or_comm)

    @property
    def ranks(self) -> list[int]:
        """Global ranks of the members, ascending.

        Raises:
            ValueError: before `init()`, of a communicator's.
        """
        ranks = self._members()
        if ranks is None:
            raise ValueError(
                f"{self!r}: the ranks of a communicator's members are known once it was given to"
                " hvd.init(process_sets=...)"
            )
        return ranks

    @ranks.setter
    def ranks(self, ranks: Iterable[int]) -> None:
        if self.process_set_id is not None or self.mpi_comm is not None:
            raise ValueError(
                f"{self!r}: the members of a registered process set, and those of a communicator,"
                " stay; make another ProcessSet"
            )
        self._ranks = _read_ranks(ranks)

    def _members(self) -> list[int] | None:
        return None if self._ranks is None else list(self._ranks)

    def size(self) -> int | None:
        """Number of members; None for a set that is not registered."""
        members = self._registered_ranks()
        return None if members is None else len(members)

    def rank(self) -> int | None:
        """This process's place among the members; None for a set that is not registered.

        Raises:
            ValueError: it is no member.
        """
        members = self._registered_ranks()
        if members is None:
            return None
        rank = SESSION.place.rank
        if rank not in members:
            raise ValueError(f"{self!r}: rank {rank} is not a member of this process set")
        return members.index(rank)

    def included(self) -> bool:
        """Whether this process is a member."""
        return SESSION.place.rank in self.ranks

    def _registered_ranks(self) -> list[int] | None:
        if self.process_set_id is not None:
            return _members_of(self.process_set_id)
        # In a child of a rank they are registered when it communicates.
        return self._members() if SESSION.parent is not None else None

    def registered_id(self) -> int | None:
        """The number by which the runtime knows it, if it does; a child of a rank joins for it."""
        if self.process_set_id is None and SESSION.parent is not None:
            SESSION.require_joined()
        return self.process_set_id

    def become(self, process_set_id: int, ranks: Sequence[int]) -> None:
        """What it is once it is registered."""
        self.process_set_id = process_set_id
        self._ranks = list(ranks)

    def __str__(self) -> str:
        """As Horovod writes it."""
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self._members()},"
            f" mpi_comm={self.mpi_comm})"
        )

    def __repr__(self) -> str:
        of = f", mpi_comm={self.mpi_comm.Get_name()}" if self.mpi_comm is not None else ""
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self._ranks}{of})"


class _GlobalProcessSet(ProcessSet):
    """All ranks; `mpi_comm` is the communicator that `init()` was given, if any."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0

    def _members(self) -> list[int]:
        """All ranks; none before `init()`."""
        return list(range(SESSION.place.size)) if SESSION.started else []

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks=all)"


global_process_set = _GlobalProcessSet()


def require_process_set(process_set: ProcessSet) -> None:
    """Refuses what is no process set.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(process_set, ProcessSet):
        raise TypeError(
            f"process_set must be a ProcessSet, not {type(process_set).__name__}; register ranks"
            " with hvd.init(process_sets=...) or hvd.add_process_set(...)"
        )


def registered_id(process_set: ProcessSet) -> int:
    """The number by which the runtime knows a process set.

    Raises:
        TypeError: it is no process set.
        ValueError: it is not registered, or was removed.
    """
    require_process_set(process_set)
    number = process_set.process_set_id
    if number is None:
        number = process_set.registered_id()
    if number is None:
        raise ValueError(
            f"{process_set!r}: Process set provided does not exist, or has not been registered."
            " Pass it to hvd.init(process_sets=...) or hvd.add_process_set(...) first."
        )
    return number


def _members_of(number: int) -> list[int]:
    """The global ranks of a process set's members.

    Raises:
        ValueError: there is no set with this number.
    """
    if number == 0 and (parent := SESSION.parent) is not None:
        return list(range(parent.size))
    ranks = SESSION.member.process_sets.get(number)
    if ranks is None:
        raise ValueError(f"Process set {number} does not exist, or was removed.")
    return ranks


def size_of(process_set: ProcessSet) -> int:
    """Number of members of a process set; raises as `registered_id`."""
    return len(_members_of(registered_id(process_set)))


def register(process_sets: Sequence[ProcessSet]) -> str:
    """Registers process sets on all ranks, which call this with the same ones.

    Under MPI, communicators among them are joined: each rank names those it is a member of.

    Returns:
        Which one has been left out, as there is such a set already; "" if none was.

    Raises:
        ValueError: a rank is not in the job, a set is empty, or a communicator comes without MPI.
        HorovodInternalError: the ranks named different ones.
    """
    member = SESSION.member
    left_out = ""
    if member.mpi is not None:
        own, everybodys, left_out = _communicator_sets.exchange(process_sets)
    elif any(process_set.mpi_comm is not None for process_set in process_sets):
        raise ValueError(
            "hvd.ProcessSet(communicator) needs a job whose ranks have met through MPI: start it"
            " with mpirun or horovodrun --mpi, or name the ranks in a list"
        )
    else:
        own = everybodys = [tuple(process_set.ranks) for process_set in process_sets]
    known = {tuple(ranks): number for number, ranks in member.process_sets.copy().items()}
    added: list[tuple[int, ...]] = []
    for ranks in everybodys:
        size = member.placement.size
        if not ranks or len(set(ranks)) < len(ranks) or ranks[0] < 0 or ranks[-1] >= size:
            raise ValueError(
                f"ProcessSet({list(ranks)}): a process set names at least one rank, none of them"
                f" twice, each from 0 to {size - 1}"
            )
        if ranks in known or ranks in added:
            left_out = left_out or (
                f"ProcessSet({list(ranks)}): a process set containing the same ranks already exists"
            )
        else:
            added.append(ranks)
    if not added:
        return left_out
    numbers = dict(zip(added, COLLECTIVES.add_process_sets(added), strict=True))
    member.process_sets.update((number, list(ranks)) for ranks, number in numbers.items())
    for process_set, ranks in zip(process_sets, own, strict=True):
        if ranks in numbers:
            process_set.become(numbers.pop(ranks), ranks)
            member.registered.append(process_set)
    return left_out


def look_up(process_sets: Sequence[ProcessSet]) -> str:
    """Gives process sets the numbers of those with the same members that are registered.

    Returns:
        Which one was left out, as it is the global one or another one of them; "" if none was.

    Raises:
        ValueError: there is no such set.
    """
    member = SESSION.member
    numbers = {tuple(ranks): number for number, ranks in member.process_sets.copy().items()}
    left_out, seen = "", {0}
    for process_set in process_sets:
        ranks = _known_ranks(process_set)
        if ranks not in numbers:
            raise ValueError(
                f"{process_set!r}: there is no such process set, and hvd.init() has been called"
                ' before; use hvd.init(process_sets="dynamic") and then hvd.add_process_set(...)'
            )
        number = numbers[ranks]
        if number in seen:
            left_out = f"ProcessSet({list(ranks)}) is a duplicate of another process set"
            continue
        seen.add(number)
        process_set.become(number, ranks)
        if process_set not in member.registered:
            member.registered.append(process_set)
    return left_out


def _known_ranks(process_set: ProcessSet) -> tuple[int, ...]:
    """The ranks of a set; of a communicator, if one with the same members is registered."""
    if process_set.mpi_comm is None:
        return tuple(process_set.ranks)
    members = _communicator_sets.world_ranks(process_set.mpi_comm)
    for other in SESSION.member.registered:
        if other.mpi_comm is not None and _communicator_sets.world_ranks(other.mpi_comm) == members:
            return tuple(other.ranks)
    return ()


def _require_dynamic() -> None:
    if not SESSION.member.dynamic_process_sets:
        raise ValueError(
            "Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow adding or removing process sets after"
            " Horovod initialization."
        )


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a process set after `init()`; all ranks of the job call it with the same ranks.

    Needs HOROVOD_DYNAMIC_PROCESS_SETS=1, or `init(process_sets="dynamic")`.

    Raises:
        ValueError: that is not so, a rank is not in the job, or there is such a set already.
        HorovodInternalError: the ranks named different sets.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    add = functools.partial(_add, process_set)
    if SESSION.parent is None or not SESSION.put_off(add, adds=True):
        add()
    return process_set


def _add(process_set: ProcessSet) -> None:
    _require_dynamic()
    if left_out := register([process_set]):
        raise ValueError(left_out)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Unregisters a process set; all ranks of the job call it. What it has pending fails.

    Needs what `add_process_set` needs.

    Returns:
        Whether it was registered; then its `process_set_id` is None from now on, as is that of
        others that stand for it. The global set stays.

    Raises:
        TypeError: it is no process set.
        ValueError: process sets may not be changed after `init()`.
        HorovodInternalError: the ranks named different sets.
    """
    require_process_set(process_set)
    number = process_set.registered_id()
    if number is None or number == 0:
        return False
    _require_dynamic()
    member = SESSION.member
    if number not in member.process_sets:
        return False
    COLLECTIVES.remove_process_set(number)
    member.process_sets.pop(number, None)
    for registered in member.registered.copy():
        if registered.process_set_id == number:
            registered.process_set_id = None
            member.registered.remove(registered)
    process_set.process_set_id = None
    return True


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """The registered process sets: number to global ranks; 0 is the global one."""
    # A copy: other threads may add and remove some.
    if (parent := SESSION.parent) is not None:
        return {0: list(range(parent.size))}
    process_sets = SESSION.member.process_sets.copy()
    return {number: list(ranks) for number, ranks in process_sets.items()}


def process_set_included(process_set_id: int = 0) -> bool:
    """Whether this rank is in the process set with a number.

    Raises:
        ValueError: there is no such set.
    """
    return SESSION.place.rank in _members_of(process_set_id)
