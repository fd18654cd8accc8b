"""Blocking collectives on torch tensors that run on the caller's thread, where all ranks meet.

Most of them are one call of the bindings (`CALLS`), which takes half a microsecond. The functions
below stand behind it: for older versions of PyTorch, subclasses of tensors, and arguments that the
bindings leave alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import torch

from horovod._collectives import COLLECTIVES
from horovod._given_numbers import checked_root
from horovod._operations import DTYPES
from horovod._reduce_op import Adasum
from horovod._session import SESSION, Member, Session
from horovod._unnamed_operations import internal_error
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch.operands import (
    copying_back,
    from_buffer,
    has_memory,
    is_aligned,
    new_result,
    put_back,
)

CODES: Mapping[torch.dtype, int] = {getattr(torch, name): code for name, code in DTYPES.items()}


Done = torch.Tensor | str | None
GroupDone = tuple[torch.Tensor, ...] | str | None


class BlockingCalls(Protocol):
    """What `_bindings.BlockingCalls` offers, on torch tensors."""

    def allreduce(
        self, tensor: object, name: str | None, op: int | None, pre: float, post: float, /
    ) -> Done: ...
    def allreduce_(
        self, tensor: object, name: str | None, op: int | None, pre: float, post: float, /
    ) -> Done: ...
    def grouped_allreduce(
        self, tensors: object, name: str | None, op: int | None, pre: float, post: float, /
    ) -> GroupDone: ...
    def grouped_allreduce_(
        self, tensors: object, name: str | None, op: int | None, pre: float, post: float, /
    ) -> GroupDone: ...
    def broadcast(self, tensor: object, name: str | None, root: int, /) -> Done: ...
    def broadcast_(self, tensor: object, name: str | None, root: int, /) -> Done: ...
    def allgather(self, tensor: object, name: str | None, output: object, /) -> Done: ...
    def alltoall(
        self, tensor: object, splits: list[int] | None, name: str | None, output: object, /
    ) -> Done | tuple[torch.Tensor, torch.Tensor]: ...  # a pair with splits
    def reducescatter(
        self,
        tensor: object,
        name: str | None,
        op: int | None,
        pre: float,
        post: float,
        output: object,
        /,
    ) -> Done: ...
    def barrier(self) -> Literal[True] | str | None: ...


class NoCalls:
    """Leaves everything alone."""

    def _leave(self, *_: object) -> None:
        return None

    allreduce = allreduce_ = grouped_allreduce = grouped_allreduce_ = _leave
    broadcast = broadcast_ = _leave
    allgather = alltoall = reducescatter = barrier = _leave


class Calls:
    """The bindings' blocking calls, for as long as this process is a member of a job.

    Attributes:
        now: what they return is the collective's result. A str in its place is the name under which
            the operation has to be started, because the ranks have not met; None that the bindings
            have left it alone.
    """

    now: BlockingCalls = NoCalls()

    def __init__(self, session: Session) -> None:
        session.follow(self._change)

    def _change(self, member: Member | None) -> None:
        exchange_api = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        if member is None or exchange_api is None:
            self.now = NoCalls()
            return
        self.now = member.runtime.blocking_calls(
            exchange_api,
            (torch.Tensor, torch.nn.Parameter),
            torch.empty_like,
            internal_error,
            put_back,
        )


CALLS = Calls(SESSION)


def _usable(tensor: Any, process_set: ProcessSet) -> torch.Tensor | None:
    """A tensor that can be read and written where it is, by all ranks' operations.

    Returns:
        Another one of its memory, whatever memory it is given meanwhile; None where it cannot be.
    """
    if process_set is not global_process_set or not isinstance(tensor, torch.Tensor):
        return None
    work = tensor.detach()
    fits = (
        work.is_cpu
        and work.dtype in CODES
        and work.layout is torch.strided
        and not work.is_nested
        and work.is_contiguous()
        and not work.is_neg()
        and has_memory(work)
        and is_aligned(work)
    )
    return work if fits else None


def allreduce(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    *,
    in_place: bool,
    wire_dtype: str | None = None,
) -> tuple[torch.Tensor | None, str | None]:
    """Reduces a tensor over all ranks.

    Returns:
        The result, or None: then the ordinary way has to be taken, with the name returned.
    """
    work = None if op == Adasum else _usable(tensor, process_set)
    if work is None:
        return None, name
    result = work if in_place else new_result(work)
    done, name = COLLECTIVES.run_now(
        "allreduce",
        name,
        work.data_ptr(),
        result.data_ptr(),
        work.shape,
        CODES[work.dtype],
        op=op,
        prescale=prescale,
        postscale=postscale,
        wire_dtype=None if wire_dtype is None else DTYPES[wire_dtype],
    )
    if done is False:
        return None, name
    return copying_back(result, tensor if in_place else result)(None), name


def broadcast(
    tensor: torch.Tensor,
    root: int,
    name: str | None,
    process_set: ProcessSet,
    *,
    in_place: bool,
) -> tuple[torch.Tensor | None, str | None]:
    """Sends the root's tensor to all ranks.

    Returns:
        As for `allreduce`.
    """
    work = _usable(tensor, process_set)
    if work is None:
        return None, name
    result = work if in_place else new_result(work)
    done, name = COLLECTIVES.run_now(
        "broadcast",
        name,
        work.data_ptr(),
        result.data_ptr(),
        work.shape,
        CODES[work.dtype],
        root=checked_root(root),
    )
    if done is False:
        return None, name
    return copying_back(result, tensor if in_place else result)(None), name


def allgather(
    tensor: torch.Tensor, name: str | None, process_set: ProcessSet
) -> tuple[torch.Tensor | None, str | None]:
    """Joins all ranks' tensors along their first dimension.

    Returns:
        As for `allreduce`.
    """
    work = _usable(tensor, process_set)
    if work is None:
        return None, name
    done, name = COLLECTIVES.run_now(
        "allgather", name, work.data_ptr(), 0, work.shape, CODES[work.dtype]
    )
    return from_buffer(done[0][0]) if done else None, name


def alltoall(
    tensor: torch.Tensor, splits: Sequence[int] | None, name: str | None, process_set: ProcessSet
) -> tuple[tuple[torch.Tensor, list[int]] | None, str | None]:
    """Sends parts of a tensor to all ranks.

    Returns:
        The parts received and the rows that came from each rank, or None; else as `allreduce`.
    """
    work = _usable(tensor, process_set)
    if work is None:
        return None, name
    done, name = COLLECTIVES.run_now(
        "alltoall",
        name,
        work.data_ptr(),
        0,
        work.shape,
        CODES[work.dtype],
        numbers=() if splits is None else splits,
    )
    return (from_buffer(done[0][0]), done[1]) if done else None, name


def reducescatter(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> tuple[torch.Tensor | None, str | None]:
    """Reduces a tensor and gives each rank its share.

    Returns:
        As for `allreduce`.
    """
    work = _usable(tensor, process_set)
    if work is None:
        return None, name
    done, name = COLLECTIVES.run_now(
        "reducescatter",
        name,
        work.data_ptr(),
        0,
        work.shape,
        CODES[work.dtype],
        op=op,
        prescale=prescale,
        postscale=postscale,
    )
    return from_buffer(done[0][0]) if done else None, name
