"""Collectives on several tensors at once: they run together once all ranks have asked for all."""
# ruff: noqa: FBT001 - Horovod's signatures

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod._reduce_op import Adasum, Average, choose_op
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id, size_of
from horovod.torch.adasum import adds_adaptively, copied, gather_and_combine
from horovod.torch.autograd import FORWARD_MODE, apply, gradient_name, needs_gradient
from horovod.torch.blocking import CALLS
from horovod.torch.compression import Compression, Compressor, NoneCompressor, outgoing
from horovod.torch.gathering import allgather
from horovod.torch.handles import start_unmet, synchronize
from horovod.torch.operands import apart, contiguous, from_buffer, new_result, operand, put_back
from horovod.torch.redistribution import gradient_factor
from horovod.torch.started import STARTED

Tensors = Sequence[torch.Tensor]


def start_grouped_allreduce(
    tensors: Tensors,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    *,
    in_place: bool,
    wire_dtypes: Sequence[str | None] | None = None,
) -> int:
    """Starts reducing several tensors, each in the type that `compression.outgoing` says.

    Returns:
        A handle for `synchronize`.
    """
    tensors = tensors if isinstance(tensors, list | tuple) else list(tensors)
    outside = FORWARD_MODE._current_level < 0  # noqa: SLF001 - see there
    if outside and not any(wire_dtypes or ()):
        start = STARTED.now.grouped_allreduce_ if in_place else STARTED.now.grouped_allreduce
        handle = start(
            tensors, name, op, prescale_factor, postscale_factor, registered_id(process_set)
        )
        if handle is not None:
            return handle
    works = [contiguous(tensor, in_place=in_place) for tensor in tensors]
    works = apart(works) if in_place else works
    if op == Adasum and not adds_adaptively(works, size_of(process_set)):
        targets = tensors if in_place else [None] * len(works)
        return gather_and_combine(
            works,
            lambda sums: tuple(map(copied, sums, targets)),
            name,
            (prescale_factor, postscale_factor),
            process_set,
        )
    results = works if in_place else [new_result(tensor) for tensor in tensors]
    targets = tuple(tensors if in_place else results)

    def finish(_: Any) -> tuple[torch.Tensor, ...]:
        if in_place:
            put_back(targets, results)
        return targets

    return COLLECTIVES.grouped_allreduce(
        [
            operand(work, wire_dtype)
            for work, wire_dtype in zip(works, wire_dtypes or [None] * len(works), strict=True)
        ],
        [operand(result) for result in results],
        finish,
        name=name,
        op=op,
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
    )


def grouped_allreduce_async(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts reducing several tensors into new ones; `synchronize` gives a tuple of them.

    Args:
        tensors: the same shapes and types in the same order on all ranks.
        average: deprecated, use `op`.
        name: of the group, the same on all ranks; without it, unnamed operations must start in the
            same order.
        op: Average (default), Sum, Min, Max, Product or Adasum.
        prescale_factor: multiplies the tensors before the reduction.
        postscale_factor: multiplies the results.
        process_set: whose ranks take part.
    """
    op = choose_op(op, average=average, adasum=True)
    return start_grouped_allreduce(
        tensors, name, op, prescale_factor, postscale_factor, process_set, in_place=False
    )


def grouped_allreduce_async_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `grouped_allreduce_async`, in place."""
    op = choose_op(op, average=average, adasum=True)
    return start_grouped_allreduce(
        tensors, name, op, prescale_factor, postscale_factor, process_set, in_place=True
    )


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        wire_dtypes: Sequence[str | None],
        *tensors: torch.Tensor,
    ) -> Any:
        ctx.arguments = (op, prescale_factor, postscale_factor, process_set)
        ctx.name = gradient_name(name)
        ctx.wire_dtypes = wire_dtypes
        handle = start_grouped_allreduce(
            tensors, name, *ctx.arguments, in_place=False, wire_dtypes=wire_dtypes
        )
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        reduced = apply(_GroupedAllreduce, ctx.name, *ctx.arguments, ctx.wire_dtypes, *grads)
        return (*[None] * 6, *reduced)


def grouped_allreduce(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Reduces several tensors over all ranks.

    Args:
        tensors: as of `grouped_allreduce_async`, and so are the arguments not listed here.
        average: deprecated, use `op`.
        name: of the group.
        compression: how they travel.
        op: the reduction.
        prescale_factor: multiplies the tensors before the reduction.
        postscale_factor: multiplies the results.
        process_set: whose ranks take part.
    """
    if (
        process_set is global_process_set
        and average is None
        and compression is NoneCompressor
        and FORWARD_MODE._current_level < 0  # noqa: SLF001 - see there
    ):
        done = CALLS.now.grouped_allreduce(tensors, name, op, prescale_factor, postscale_factor)
        if isinstance(done, str):
            done = synchronize(
                start_unmet(
                    "allreduce",
                    done,
                    partial(
                        grouped_allreduce_async,
                        tensors,
                        None,
                        op=op,
                        prescale_factor=prescale_factor,
                        postscale_factor=postscale_factor,
                    ),
                )
            )
        if done is not None:
            return list(done)
    op = choose_op(op, average=average, adasum=True)
    sent = [outgoing(tensor, compression, op) for tensor in tensors]
    how = (name, op, prescale_factor, postscale_factor, process_set)
    wire_dtypes = [each.wire_dtype for each in sent]
    works = [each.tensor for each in sent]
    if any(map(needs_gradient, works)):
        reduced = apply(_GroupedAllreduce, *how, wire_dtypes, *works)
    else:
        reduced = synchronize(
            start_grouped_allreduce(works, *how, in_place=False, wire_dtypes=wire_dtypes)
        )
    return [
        compression.decompress(tensor, each.context)
        for tensor, each in zip(reduced, sent, strict=True)
    ]


def grouped_allreduce_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Like `grouped_allreduce`, in place and without a gradient."""
    outside = FORWARD_MODE._current_level < 0  # noqa: SLF001 - see there
    if outside and process_set is global_process_set and average is None:
        done = CALLS.now.grouped_allreduce_(tensors, name, op, prescale_factor, postscale_factor)
        if isinstance(done, str):
            done = synchronize(
                start_unmet(
                    "allreduce",
                    done,
                    partial(
                        grouped_allreduce_async_,
                        tensors,
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
    results: tuple[torch.Tensor, ...] = synchronize(
        start_grouped_allreduce(
            tensors, name, op, prescale_factor, postscale_factor, process_set, in_place=True
        )
    )
    return results


def grouped_allgather_async(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts several allgathers; `synchronize` gives a tuple of their results."""
    return COLLECTIVES.grouped_allgather(
        [operand(contiguous(tensor)) for tensor in tensors],
        lambda buffers: tuple(map(from_buffer, buffers)),
        name=name,
        process_set=registered_id(process_set),
    )


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor) -> Any:
        ctx.name = gradient_name(name)
        ctx.process_set = process_set
        gathered = synchronize(grouped_allgather_async(tensors, name, process_set))
        ctx.rows = [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]
        return gathered

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        process_set = ctx.process_set
        reduced = grouped_allreduce(list(grads), name=ctx.name, op=Average, process_set=process_set)
        everyones = allgather(torch.tensor([ctx.rows], device="cpu"), ctx.name, process_set)
        before = everyones[: process_set.rank()].sum(0).tolist()
        parts = [
            grad.narrow(0, start, rows)
            for grad, start, rows in zip(reduced, before, ctx.rows, strict=True)
        ]
        return None, None, *parts


def grouped_allgather(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> tuple[torch.Tensor, ...]:
    """Joins all ranks' tensors along their first dimensions, in which they may differ."""
    gathered: tuple[torch.Tensor, ...] = apply(_GroupedAllgather, name, process_set, *tensors)
    return gathered


def grouped_reducescatter_async(
    tensors: Tensors,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts several reducescatters; `synchronize` gives a tuple of their results."""
    return COLLECTIVES.grouped_reducescatter(
        [operand(contiguous(tensor)) for tensor in tensors],
        lambda buffers: tuple(map(from_buffer, buffers)),
        name=name,
        op=choose_op(op, average=None),
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
    )


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
        *tensors: torch.Tensor,
    ) -> Any:
        ctx.name = gradient_name(name)
        ctx.process_set = process_set
        ctx.factor = gradient_factor(op, process_set, prescale_factor, postscale_factor)
        handle = grouped_reducescatter_async(
            tensors, name, op, process_set, prescale_factor, postscale_factor
        )
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        scaled = [grad * ctx.factor for grad in grads]
        gathered = grouped_allgather(scaled, ctx.name, ctx.process_set)
        return (*[None] * 5, *gathered)


def grouped_reducescatter(
    tensors: Tensors,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Several reducescatters at once; arguments as of `reducescatter`."""
    pairs = [compression.compress(tensor) for tensor in tensors]
    scattered = apply(
        _GroupedReducescatter,
        name,
        op,
        process_set,
        prescale_factor,
        postscale_factor,
        *(compressed for compressed, _ in pairs),
    )
    return [
        compression.decompress(tensor, context)
        for tensor, (_, context) in zip(scattered, pairs, strict=True)
    ]
