"""Process sets: which ranks take part in a collective, registered by `init()` or later."""

from collections.abc import Sequence
from typing import Any

from horovod._collectives import COLLECTIVES
from horovod._session import SESSION


class ProcessSet:
    """A set of ranks.

    Args:
        ranks_or_comm: global ranks of the members. MPI communicators are not supported.

    Attributes:
        process_set_id: 0 for the global set, None for one that is not registered.
        mpi_comm: always None.
    """

    def __init__(self, ranks_or_comm: Sequence[int] | Any) -> None:
        if not isinstance(ranks_or_comm, Sequence | range | set | frozenset):
            raise NotImplementedError(
                f"ProcessSet takes a list of ranks, not {type(ranks_or_comm).__name__};"
                " this build has no MPI communicators"
            )
        self._ranks: list[int] | None = sorted(ranks_or_comm)
        self.process_set_id: int | None = None
        self.mpi_comm: Any = None

    @property
    def ranks(self) -> list[int]:
        """Global ranks of the members, ascending.

        Raises:
            ValueError: of the global set before `init()`.
        """
        if self._ranks is None:
            return list(range(SESSION.member.placement.size))
        return list(self._ranks)

    def size(self) -> int:
        """Number of members."""
        return len(self.ranks)

    def rank(self) -> int:
        """This process's place among the members, -1 when it is none."""
        return self.ranks.index(me) if (me := SESSION.member.placement.rank) in self.ranks else -1

    def included(self) -> bool:
        """Whether this process is a member."""
        return SESSION.member.placement.rank in self.ranks

    def __repr__(self) -> str:
        members = "all" if self._ranks is None else str(self._ranks)
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={members})"


class _GlobalProcessSet(ProcessSet):
    def __init__(self) -> None:
        super().__init__([])
        self._ranks = None
        self.process_set_id = 0


global_process_set = _GlobalProcessSet()


def registered_id(process_set: ProcessSet) -> int:
    """The number by which the runtime knows a process set.

    Raises:
        TypeError: it is no process set.
        ValueError: it is not registered, or was removed.
    """
    if not isinstance(process_set, ProcessSet):
        raise TypeError(
            f"process_set must be a ProcessSet, not {type(process_set).__name__}; register ranks"
            " with hvd.init(process_sets=...) or hvd.add_process_set(...)"
        )
    if process_set.process_set_id is None:
        raise ValueError(
            f"{process_set!r}: Process set provided does not exist, or has not been registered."
            " Pass it to hvd.init(process_sets=...) or hvd.add_process_set(...) first."
        )
    return process_set.process_set_id


def register(process_sets: Sequence[ProcessSet]) -> None:
    """Registers process sets on all ranks, which call this with the same ones.

    Raises:
        ValueError: a rank is not in the job, a set is empty, or there is such a set already.
        HorovodInternalError: the ranks named different ones.
    """
    if not process_sets:
        return
    member = SESSION.member
    known = {tuple(ranks): number for number, ranks in member.process_sets.items()}
    for process_set in process_sets:
        ranks = tuple(process_set.ranks)
        size = member.placement.size
        if not ranks or len(set(ranks)) < len(ranks) or ranks[0] < 0 or ranks[-1] >= size:
            raise ValueError(
                f"{process_set!r}: a process set names at least one rank, none of them twice, each"
                f" from 0 to {size - 1}"
            )
        if ranks in known:
            raise ValueError(
                f"{process_set!r}: a process set containing the same ranks already exists"
            )
        known[ranks] = -1
    numbers = COLLECTIVES.add_process_sets([process_set.ranks for process_set in process_sets])
    for process_set, number in zip(process_sets, numbers, strict=True):
        process_set.process_set_id = number
        member.process_sets[number] = process_set.ranks
        member.registered.append(process_set)


def _require_dynamic() -> None:
    if not SESSION.member.dynamic_process_sets:
        raise ValueError(
            "Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow adding or removing process sets after"
            " Horovod initialization."
        )


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Registers a process set after `init()`; all ranks of the job call it with the same ranks.

    Needs HOROVOD_DYNAMIC_PROCESS_SETS=1, or `init(process_sets="dynamic")`.

    Raises:
        ValueError: that is not so, a rank is not in the job, or there is such a set already.
        HorovodInternalError: the ranks named different sets.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    _require_dynamic()
    register([process_set])
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Unregisters a process set; all ranks of the job call it. What it has pending fails.

    Needs what `add_process_set` needs.

    Returns:
        Whether it was registered; then its `process_set_id` is None from now on. The global set
        stays.

    Raises:
        ValueError: process sets may not be changed after `init()`.
        HorovodInternalError: the ranks named different sets.
    """
    _require_dynamic()
    number = process_set.process_set_id
    if number is None or number == 0 or number not in SESSION.member.process_sets:
        return False
    COLLECTIVES.remove_process_set(number)
    del SESSION.member.process_sets[number]
    process_set.process_set_id = None
    return True


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """The registered process sets: number to global ranks; 0 is the global one."""
    return {number: list(ranks) for number, ranks in SESSION.member.process_sets.items()}


def process_set_included(process_set_id: int = 0) -> bool:
    """Whether this rank is in the process set with a number.

    Raises:
        ValueError: there is no such set.
    """
    ranks = SESSION.member.process_sets.get(process_set_id)
    if ranks is None:
        raise ValueError(f"Process set {process_set_id} does not exist, or was removed.")
    return SESSION.member.placement.rank in ranks
