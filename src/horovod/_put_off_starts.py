"""Calls of `init()` in children of ranks, which join a job only if they communicate."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from horovod import _launcher_store
from horovod._parent_rank import ParentRank

_NONE = "processes that ranks start form no job where the ranks {}. {}"


@dataclass(frozen=True)
class PutOff:
    """The calls of `init()` in a child of a rank, which so far has asked for its rank alone.

    Attributes:
        calls: what they do, in order.
    """

    parent: ParentRank
    calls: list[Callable[[], None]]

    def make_good(self) -> None:
        """Has this process join a job, of children of all ranks.

        Raises:
            RuntimeError: there can be none.
            HorovodInternalError: not all came in time.
        """
        if self.parent.mpi_threads is not None:
            raise RuntimeError(_NONE.format("have met through MPI", self.parent.describe()))
        if _launcher_store.is_elastic_worker(os.environ):
            raise RuntimeError(_NONE.format("come and go", self.parent.describe()))
        for call in self.calls:
            call()
