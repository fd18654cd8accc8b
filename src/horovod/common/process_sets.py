"""Process sets: which ranks take part. For now the only one that works is all of them."""

from collections.abc import Sequence

from horovod._session import SESSION

UNSUPPORTED = (
    "process sets other than hvd.global_process_set are not supported yet by horovod-variants"
)


class ProcessSet:
    """A set of ranks.

    Args:
        ranks: global ranks of the members.

    Attributes:
        process_set_id: 0 for the global set, None for one that is not registered.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks: list[int] | None = sorted(ranks)
        self.process_set_id: int | None = None

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


def require_global(process_set: ProcessSet) -> None:
    """Refuses what is not implemented.

    Raises:
        NotImplementedError: the set is not the global one.
    """
    if process_set.process_set_id != 0:
        raise NotImplementedError(f"{process_set!r}: {UNSUPPORTED}")


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Not supported yet.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"{process_set!r}: {UNSUPPORTED}")


def remove_process_set(process_set: ProcessSet) -> bool:
    """Not supported yet.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"{process_set!r}: {UNSUPPORTED}")
