"""Calls of `init()` in children of ranks, which join a job only if they communicate."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from horovod import _launcher_store
from horovod._parent_rank import ParentRank
from horovod.common.exceptions import HorovodInternalError


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
        who = (
            f"process {os.getpid()} is no rank: multiprocessing has started it in rank"
            f" {self.parent.rank}, process {self.parent.process}, which has called hvd.init()"
        )
        advice = 'Have the ranks alone communicate, under `if __name__ == "__main__":`.'
        if self.parent.mpi_threads is not None or _launcher_store.is_elastic_worker(os.environ):
            kind = "met through MPI" if self.parent.mpi_threads is not None else "elastic"
            raise RuntimeError(
                f"{who}; the children of ranks form no job where that is {kind}. {advice}"
            )
        try:
            for call in self.calls:
                call()
        except HorovodInternalError as error:
            raise HorovodInternalError(
                f"{str(error).rstrip('.')}. This {who}; its job is one of children of all ranks."
                f" {advice}"
            ) from error
