"""Allreduce on torch tensors."""
# ruff: noqa: FBT001 - Horovod's signatures

from functools import partial
from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod._operations import DTYPES
from horovod._reduce_op import Adasum, Average, Sum, choose_op
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id, size_of
from horovod.torch import blocking
from horovod.torch.adasum import adds_adaptively, copied, gather_and_combine
from horovod.torch.autograd import (
    FORWARD_MODE,
    apply,
    gradient_name,
    needs_gradient,
    refuse_tangent,
    tangent_name,
)
from horovod.torch.blocking import CALLS
from horovod.torch.compression import Compression, Compressor, NoneCompressor, outgoing
from horovod.torch.handles import result_of, start_unmet
from horovod.torch.operands import contiguous, copying_back, new_result, operand
from horovod.torch.started import STARTED


def start_allreduce(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    *,
    in_place: bool,
    wire_dtype: str | None = None,
) -> int:
    """Starts reducing a tensor, in the type that `compression.outgoing` says.

    Returns:
        A handle for `synchronize`.

    Raises:
        NotImplementedError: the tensor has a tangent.
    """
    if FORWARD_MODE._current_level >= 0:  # noqa: SLF001 - see there
        refuse_tangent(tensor)
    start = STARTED.now.allreduce_ if in_place else STARTED.now.allreduce
    handle = start(
        tensor,
        name,
        op,
        prescale_factor,
        postscale_factor,
        registered_id(process_set),
        None if wire_dtype is None else DTYPES[wire_dtype],
    )
    if handle is not None:
        return handle
    work = contiguous(tensor, in_place=in_place)
    if op == Adasum and not adds_adaptively([work], size_of(process_set)):
        target = tensor if in_place else None
        factors = (prescale_factor, postscale_factor)
        return gather_and_combine(
            [work], lambda sums: copied(sums[0], target), name, factors, process_set
        )
    result = work if in_place else new_result(tensor)
    source = operand(work, wire_dtype)
    return COLLECTIVES.allreduce(
        source,
        source if in_place else operand(result),
        copying_back(result, tensor if in_place else result),
        name=name,
        op=op,
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
    )


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts reducing a tensor over all ranks into a new one.

    Args:
        tensor: same shape and type on all ranks.
        average: deprecated, use `op`.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        op: Average (default), Sum, Min, Max, Product or Adasum.
        prescale_factor: multiplies the tensor before the reduction.
        postscale_factor: multiplies the result.
        process_set: whose ranks take part.

    Returns:
        A handle for `poll` and `synchronize`. Until then, the tensor may not be resized or put into
        memory that processes share (`share_memory_`, queues of `torch.multiprocessing`).
    """
    op = choose_op(op, average=average, adasum=True)
    return start_allreduce(
        tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=False
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `allreduce_async`, in place: the tensor must not be touched until `synchronize`.

    Nor may it be put into a queue of `torch.multiprocessing`, as none in flight may: that moves the
    memory in place (`share_memory_`), and the operation goes on in what has been freed.
    """
    op = choose_op(op, average=average, adasum=True)
    return start_allreduce(
        tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=True
    )


def _allreduce_into(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    *,
    in_place: bool,
    wire_dtype: str | None = None,
) -> torch.Tensor:
    """Reduces and waits: on this thread if all ranks come, else the way of `allreduce_async`."""
    how = (op, prescale_factor, postscale_factor, process_set)
    result, name = blocking.allreduce(tensor, name, *how, in_place=in_place, wire_dtype=wire_dtype)
    if result is not None:
        return result
    return result_of(
        start_unmet(
            "allreduce",
            name,
            lambda name: start_allreduce(
                tensor, name, *how, in_place=in_place, wire_dtype=wire_dtype
            ),
        )
    )


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        wire_dtype: str | None,
    ) -> torch.Tensor:
        ctx.arguments = (name, op, prescale_factor, postscale_factor, process_set)
        ctx.wire_dtype = wire_dtype
        return _allreduce_into(tensor, *ctx.arguments, in_place=False, wire_dtype=wire_dtype)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        name, op, *rest = ctx.arguments
        if op not in (Average, Sum):
            raise NotImplementedError(
                "hvd.allreduce takes part in forward-mode differentiation with op=Average and"
                " op=Sum alone"
            )
        arguments = (tangent, tangent_name(name), op, *rest)
        if needs_gradient(tangent):
            reduced: torch.Tensor = apply(_Allreduce, *arguments, ctx.wire_dtype)
            return reduced
        return _allreduce_into(*arguments, in_place=False, wire_dtype=ctx.wire_dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        name, *rest = ctx.arguments
        reduced = apply(_Allreduce, grad, gradient_name(name), *rest, ctx.wire_dtype)
        return (reduced, *[None] * 6)


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduces a tensor over all ranks; its gradient is the same reduction of the gradients.

    Args:
        tensor: same shape and type on all ranks.
        average: deprecated, use `op`.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        compression: how the tensor travels.
        op: Average (default), Sum, Min, Max, Product or Adasum.
        prescale_factor: multiplies the tensor before the reduction.
        postscale_factor: multiplies the result.
        process_set: whose ranks take part.
    """
    if (
        process_set is global_process_set
        and average is None
        and compression is NoneCompressor
        and FORWARD_MODE._current_level < 0  # noqa: SLF001 - see there
    ):
        done = CALLS.now.allreduce(tensor, name, op, prescale_factor, postscale_factor)
        if isinstance(done, str):
            return result_of(
                start_unmet(
                    "allreduce",
                    done,
                    partial(
                        allreduce_async,
                        tensor,
                        None,
                        op=op,
                        prescale_factor=prescale_factor,
                        postscale_factor=postscale_factor,
                    ),
                )
            )
        if done is not None:
            return done
    op = choose_op(op, average=average, adasum=True)
    sent, ctx, wire_dtype, _ = outgoing(tensor, compression, op)
    arguments = (sent, name, op, prescale_factor, postscale_factor, process_set)
    reduced = (
        apply(_Allreduce, *arguments, wire_dtype)
        if needs_gradient(sent)
        else _allreduce_into(*arguments, in_place=False, wire_dtype=wire_dtype)
    )
    return compression.decompress(reduced, ctx)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Like `allreduce`, in place and without a gradient; refuses tensors with a tangent."""
    if (
        process_set is global_process_set and average is None and FORWARD_MODE._current_level < 0  # noqa: SLF001 - see there
    ):
        done = CALLS.now.allreduce_(tensor, name, op, prescale_factor, postscale_factor)
        if isinstance(done, str):
            return result_of(
                start_unmet(
                    "allreduce",
                    done,
                    partial(
                        allreduce_async_,
                        tensor,
                        None,
                        op=op,
                        prescale_factor=prescale_factor,
                        postscale_factor=postscale_factor,
                    ),
                )
            )
        if done is not None:
            return done
    refuse_tangent(tensor)
    op = choose_op(op, average=average, adasum=True)
    return _allreduce_into(
        tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=True
    )
