"""Asynchronous operations on torch tensors: one call starts, another waits for them.

The bindings do what is common (`STARTED`), under odd handles; what they leave alone goes through
`COLLECTIVES`, which has the even ones.
"""

from typing import Any, Protocol

import torch

from horovod._call_site import call_site
from horovod._collectives import COLLECTIVES
from horovod._session import SESSION, Member, Session
from horovod._unnamed_operations import internal_error
from horovod.torch.operands import put_back, room_for_rows


class StartedCalls(Protocol):
    """What `_bindings.StartedCalls` offers, on torch tensors."""

    def allreduce(
        self,
        tensor: object,
        name: str | None,
        op: int | None,
        pre: float,
        post: float,
        process_set: int,
        wire_dtype: int | None,
        /,
    ) -> int | None: ...
    def allreduce_(
        self,
        tensor: object,
        name: str | None,
        op: int | None,
        pre: float,
        post: float,
        process_set: int,
        wire_dtype: int | None,
        /,
    ) -> int | None: ...
    def broadcast(
        self, tensor: object, name: str | None, root: int, process_set: int, /
    ) -> int | None: ...
    def broadcast_(
        self, tensor: object, name: str | None, root: int, process_set: int, /
    ) -> int | None: ...
    def allgather(self, tensor: object, name: str | None, process_set: int, /) -> int | None: ...
    def reducescatter(
        self,
        tensor: object,
        name: str | None,
        op: int | None,
        pre: float,
        post: float,
        process_set: int,
        /,
    ) -> int | None: ...
    def alltoall(
        self, tensor: object, splits: list[int] | None, name: str | None, process_set: int, /
    ) -> int | None: ...
    def grouped_allreduce(
        self,
        tensors: object,
        name: str | None,
        op: int | None,
        pre: float,
        post: float,
        process_set: int,
        /,
    ) -> int | None: ...
    def grouped_allreduce_(
        self,
        tensors: object,
        name: str | None,
        op: int | None,
        pre: float,
        post: float,
        process_set: int,
        /,
    ) -> int | None: ...
    def poll(self, handle: int, /) -> bool | None: ...
    def synchronize(self, handle: int, /) -> torch.Tensor | tuple[torch.Tensor, ...] | None: ...
    def under_way(self) -> int: ...


class NoCalls:
    """Starts nothing."""

    def _leave(self, *_: object) -> None:
        return None

    allreduce = allreduce_ = grouped_allreduce = grouped_allreduce_ = _leave
    broadcast = broadcast_ = allgather = reducescatter = alltoall = _leave
    poll = synchronize = _leave

    def under_way(self) -> int:
        """How many operations nobody has waited for."""
        return 0


class Started:
    """The bindings' asynchronous calls, for as long as this process is a member of a job.

    Attributes:
        now: they return a handle; None where they leave an operation alone.
        newest: the same calls, also after the job has ended, to wait for what was started there.
    """

    now: StartedCalls
    newest: StartedCalls
    _earlier: StartedCalls

    def __init__(self, session: Session) -> None:
        self._session = session
        self.now = self.newest = NoCalls()
        self._earlier = self.newest
        session.follow(self._change, ended=self._let_go)

    def _let_go(self) -> None:
        """A job has ended, so that nothing can be started in it any more."""
        if not self.newest.under_way():
            self.newest = NoCalls()

    def _change(self, member: Member | None) -> None:
        exchange_api = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        if member is None or exchange_api is None:
            self.now = NoCalls()
            return
        # Those of a job that has failed are often never asked for; two jobs later they are gone.
        self._earlier = self.newest
        self.now = self.newest = member.runtime.started_calls(
            exchange_api,
            (torch.Tensor, torch.nn.Parameter),
            torch.empty_like,
            internal_error,
            put_back,
            new_rows=room_for_rows,
            rank=member.placement.rank,
            size=member.placement.size,
            site=call_site,
            # In time for rank 0 to say it when it names the ranks that do not come.
            site_after=member.placement.stall_warning / 2,
        )

    def poll(self, handle: int) -> bool:
        """Whether an operation is done; raises as `Operations.poll`."""
        done = self.newest.poll(handle)
        if done is None:
            self._require_own_process()
            done = self._earlier.poll(handle)
        return COLLECTIVES.poll(handle) if done is None else done

    def synchronize(self, handle: int) -> Any:
        """Waits for an operation; returns and raises as `Operations.synchronize`."""
        done = self.newest.synchronize(handle)
        if done is None:
            self._require_own_process()
            done = self._earlier.synchronize(handle)
        return COLLECTIVES.synchronize(handle) if done is None else done

    def _require_own_process(self) -> None:
        member = self._session.current
        if member is not None:
            member.require_own_process()


STARTED = Started(SESSION)
