"""Broadcast on torch tensors."""

from functools import partial
from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod._reduce_op import Average
from horovod._session import SESSION
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id
from horovod.torch import blocking
from horovod.torch.autograd import (
    FORWARD_MODE,
    apply,
    gradient_name,
    needs_gradient,
    refuse_tangent,
)
from horovod.torch.blocking import CALLS
from horovod.torch.handles import result_of, start_unmet
from horovod.torch.operands import contiguous, copying_back, new_result, operand
from horovod.torch.reduction import allreduce
from horovod.torch.started import STARTED


def _start_broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
    *,
    in_place: bool,
) -> int:
    if FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        start = STARTED.now.broadcast_ if in_place else STARTED.now.broadcast
        handle = start(tensor, name, root_rank, registered_id(process_set))
        if handle is not None:
            return handle
    work = contiguous(tensor, in_place=in_place)
    result = work if in_place else new_result(tensor)
    return COLLECTIVES.broadcast(
        operand(work),
        operand(result),
        copying_back(result, tensor if in_place else result),
        root=root_rank,
        name=name,
        process_set=registered_id(process_set),
    )


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts sending the root's tensor to all ranks, into a new tensor."""
    return _start_broadcast(tensor, root_rank, name, process_set, in_place=False)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `broadcast_async`, in place."""
    return _start_broadcast(tensor, root_rank, name, process_set, in_place=True)


def _broadcast_into(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
    *,
    in_place: bool,
) -> torch.Tensor:
    result, name = blocking.broadcast(tensor, root_rank, name, process_set, in_place=in_place)
    if result is not None:
        return result
    return result_of(
        start_unmet(
            "broadcast",
            name,
            lambda name: _start_broadcast(tensor, root_rank, name, process_set, in_place=in_place),
        )
    )


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.arguments = (root_rank, name, process_set)
        return _broadcast_into(tensor, *ctx.arguments, in_place=False)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        root_rank, name, process_set = ctx.arguments
        reduced = allreduce(grad, name=gradient_name(name), op=Average, process_set=process_set)
        if SESSION.member.placement.rank != root_rank:
            # Zeros, of infinities too. Its own gradient leads on, where all ranks take part.
            reduced = reduced.masked_fill(torch.ones_like(reduced, dtype=torch.bool), 0)
        return reduced, None, None, None


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Returns the root's tensor on all ranks.

    Args:
        tensor: same shape and type on all ranks.
        root_rank: the global rank whose tensor it is.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        process_set: whose ranks take part.
    """
    if process_set is global_process_set and FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        done = CALLS.now.broadcast(tensor, name, root_rank)
        if isinstance(done, str):
            return result_of(
                start_unmet("broadcast", done, partial(broadcast_async, tensor, root_rank))
            )
        if done is not None:
            return done
    if not needs_gradient(tensor):
        return _broadcast_into(tensor, root_rank, name, process_set, in_place=False)
    sent: torch.Tensor = apply(_Broadcast, tensor, root_rank, name, process_set)
    return sent


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Like `broadcast`, in place and without a gradient; refuses tensors with a tangent."""
    if process_set is global_process_set and FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        done = CALLS.now.broadcast_(tensor, name, root_rank)
        if isinstance(done, str):
            return result_of(
                start_unmet("broadcast", done, partial(broadcast_async_, tensor, root_rank))
            )
        if done is not None:
            return done
    refuse_tangent(tensor)
    return _broadcast_into(tensor, root_rank, name, process_set, in_place=True)
