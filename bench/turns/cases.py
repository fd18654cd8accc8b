"""What ranks are asked to time, in words that every library's calls understand."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Case:
    """One piece of work.

    Attributes:
        work: "allreduce", "allgather", "broadcast", "alltoall", "reducescatter", or what a
            benchmark adds ("gradients", "step").
        nbytes: of the tensor that a rank passes.
        dtype: a key of `ITEM_BYTES`.
        variant: one of several ways to do the same work; "" for the plain one.
    """

    work: str
    nbytes: int = 0
    dtype: str = "float32"
    variant: str = ""

    @property
    def count(self) -> int:
        """Elements of the tensor."""
        return max(1, self.nbytes // ITEM_BYTES[self.dtype])


@dataclass
class Work:
    """A case that is ready to run.

    Attributes:
        call: does it once.
        check: does it once on known values and compares the result.
        reset: puts values into the tensors that stay finite however often `call` runs.
        keep: what has to live as long.
    """

    call: Callable[[], object]
    check: Callable[[], bool]
    reset: Callable[[], object]
    keep: list[Any] = field(default_factory=list)


class Calls(Protocol):
    """A library, seen by one rank of a group that is joined by it."""

    rank: int
    size: int

    def facts(self) -> dict[str, str]:
        """Versions and choices, for the header of a table."""
        ...

    def barrier(self) -> object:
        """Waits for all ranks, by the library's own means."""
        ...

    def prepare(self, case: Case) -> Work:
        """Makes the tensors of a case."""
        ...

    def close(self) -> None:
        """Leaves the group."""
        ...


def pages(nbytes: int) -> mmap.mmap:
    """Private memory on small pages, the same kind for all libraries whatever they allocate."""
    memory = mmap.mmap(-1, max(nbytes, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory
