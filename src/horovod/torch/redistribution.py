"""Alltoall and reducescatter on torch tensors: every rank gets other rows than it had."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod._given_numbers import checked_factor
from horovod._operations import Operand
from horovod._reduce_op import Average, Sum, choose_op
from horovod._splits import bad_splits, read_splits
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id, size_of
from horovod.torch import blocking
from horovod.torch.autograd import (
    FORWARD_MODE,
    apply,
    gradient_name,
    needs_gradient,
    refuse_gradient,
)
from horovod.torch.blocking import CALLS
from horovod.torch.compression import Compression, Compressor, NoneCompressor
from horovod.torch.gathering import allgather
from horovod.torch.handles import result_of, start_unmet, synchronize
from horovod.torch.operands import contiguous, fill, memory_for, operand
from horovod.torch.started import STARTED

Splits = torch.Tensor | list[int] | tuple[int, ...] | None

_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


def _counts_tensor(counts: list[int]) -> torch.Tensor:
    """Rows that came from each rank: int32 as in Horovod, int64 where that is too narrow."""
    wide = max(counts) > torch.iinfo(torch.int32).max
    return torch.tensor(counts, dtype=torch.int64 if wide else torch.int32, device="cpu")


def _rows(splits: Splits) -> list[int] | None:
    """Reads the `splits` of an alltoall.

    Raises:
        ValueError: they are no whole numbers, or not in one dimension.
    """
    if splits is None:  # of which it takes PyTorch a third of a microsecond to say it is no tensor
        return None
    if not isinstance(splits, torch.Tensor):
        return read_splits(splits)
    if splits.dim() != 1 or splits.dtype not in _INTEGERS:
        raise bad_splits(splits)
    rows: list[int] = splits.tolist()
    return rows


def _sent(rows: list[int], most: int) -> int:
    """How many rows of a tensor go to somebody; of bad splits, which are refused later, all."""
    return sum(rows) if min(rows, default=0) >= 0 and sum(rows) <= most else most


def _start_alltoall(
    tensor: torch.Tensor,
    rows: list[int] | None,
    name: str | None,
    process_set: ProcessSet,
    finish: Callable[[torch.Tensor, list[int]], Any],
    output: torch.Tensor | None = None,
) -> int:
    source = operand(contiguous(tensor))
    memory, receive = memory_for(
        output, source, lambda: source.shape[0] if rows is None else _sent(rows, source.shape[0])
    )
    return COLLECTIVES.alltoall(
        source,
        lambda received, counts: finish(receive(received), counts),
        splits=rows,
        name=name,
        process_set=registered_id(process_set),
        output=memory,
    )


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: torch.Tensor | None = None,
) -> int:
    """Starts sending parts of a tensor to all ranks; arguments as of `alltoall`.

    Returns:
        A handle; `synchronize` gives the parts received and the rows that came from each rank, with
        or without `splits`. Until then, neither `tensor` nor `output` may be touched.
    """
    rows = _rows(splits)
    if output is None and FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        handle = STARTED.now.alltoall(tensor, rows, name, registered_id(process_set))
        if handle is not None:
            return handle
    return _start_alltoall(
        tensor,
        rows,
        name,
        process_set,
        lambda received, counts: (received, _counts_tensor(counts)),
        output,
    )


def _redistribute(
    tensor: torch.Tensor, rows: list[int] | None, name: str | None, process_set: ProcessSet
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sends and waits: on this thread if all ranks come, else as `alltoall_async`."""
    result, name = blocking.alltoall(tensor, rows, name, process_set)
    if result is not None:
        received, counts = result
        return received, _counts_tensor(counts)
    pair: tuple[torch.Tensor, torch.Tensor] = synchronize(
        start_unmet("alltoall", name, lambda name: alltoall_async(tensor, rows, name, process_set))
    )
    return pair


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        splits: Splits,
        name: str | None,
        process_set: ProcessSet,
    ) -> Any:
        received, received_splits = _redistribute(tensor, _rows(splits), name, process_set)
        ctx.arguments = (received_splits, gradient_name(name), process_set)
        ctx.rows = tensor.shape[0]
        if splits is None:
            return received
        ctx.mark_non_differentiable(received_splits)
        return received, received_splits

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *_: Any) -> Any:
        back, _ = apply(_Alltoall, grad, *ctx.arguments)
        missing = ctx.rows - back.shape[0]  # rows that went to nobody
        if missing:
            back = torch.cat([back, back.new_zeros(missing, *back.shape[1:])])
        return back, None, None, None


def alltoall(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: torch.Tensor | None = None,
) -> Any:
    """Sends parts of a tensor to all ranks and joins the parts that come from them.

    Args:
        tensor: cut along its first dimension; the other dimensions are the same on all ranks.
        splits: how many rows each rank gets, a list of whole numbers or a one-dimensional tensor of
            integers; None for the same number each.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        process_set: whose ranks take part.
        output: memory for the parts received, as of `allgather`.

    Returns:
        The parts in the order of their ranks; with `splits`, a pair of that and a tensor of the
        rows that came from each rank, int32 unless one of them needs int64.
    """
    rows = None if splits is None else _rows(splits)  # a call less
    if process_set is global_process_set and FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        done = CALLS.now.alltoall(tensor, rows, name, output)
        if done is not None:
            if done is output:
                return done
            if isinstance(done, str):
                pair = synchronize(
                    start_unmet(
                        "alltoall", done, partial(alltoall_async, tensor, rows, output=output)
                    )
                )
                return pair[0] if splits is None else pair
            return done if output is None or isinstance(done, tuple) else fill(output, done)
    if output is not None:
        refuse_gradient(tensor)
        pair = synchronize(alltoall_async(tensor, rows, name, process_set, output=output))
        return pair[0] if splits is None else pair
    if needs_gradient(tensor):
        return apply(_Alltoall, tensor, rows, name, process_set)
    pair = _redistribute(tensor, rows, name, process_set)
    return pair[0] if splits is None else pair


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    output: torch.Tensor | None = None,
) -> int:
    """Starts a reduction of which each rank gets a part; arguments as of `reducescatter`.

    Until `synchronize`, neither `tensor` nor `output` may be touched.
    """
    if output is None and FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        handle = STARTED.now.reducescatter(
            tensor, name, op, prescale_factor, postscale_factor, registered_id(process_set)
        )
        if handle is not None:
            return handle
    source = operand(contiguous(tensor))
    memory, finish = memory_for(output, source, partial(_own_share, source, process_set))
    return COLLECTIVES.reducescatter(
        source,
        finish,
        name=name,
        op=choose_op(op, average=None),
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
        output=memory,
    )


def _own_share(source: Operand, process_set: ProcessSet) -> int:
    """How many rows of a reducescatter a rank gets; of one that takes no part, any."""
    rows = source.shape[0]
    ranks = size_of(process_set)
    own = (process_set.rank() or 0) if process_set.included() else 0
    return rows // ranks + (own < rows % ranks)


def _reduce_and_scatter(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> torch.Tensor:
    """Reduces and waits: on this thread if all ranks come, else as `reducescatter_async`."""
    op = choose_op(op, average=None)
    result, name = blocking.reducescatter(
        tensor, name, op, prescale_factor, postscale_factor, process_set
    )
    if result is not None:
        return result
    return result_of(
        start_unmet(
            "reducescatter",
            name,
            lambda name: reducescatter_async(
                tensor, name, op, process_set, prescale_factor, postscale_factor
            ),
        )
    )


def gradient_factor(
    op: int, process_set: ProcessSet, prescale_factor: float, postscale_factor: float
) -> float:
    """What gathered gradients are multiplied by, in the backward pass of a reducescatter.

    As in Horovod, the gradient of a reducescatter and that of an allgather after it make the
    gradient of the two: the latter takes the mean over the ranks, so the former, with Sum, does not
    divide by their number but multiplies.

    Raises:
        TypeError: a factor is no number.
    """
    scale = checked_factor("prescale_factor", prescale_factor)
    scale *= checked_factor("postscale_factor", postscale_factor)
    return scale * size_of(process_set) if op == Sum else scale


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
    ) -> torch.Tensor:
        ctx.name = gradient_name(name)
        ctx.process_set = process_set
        ctx.factor = gradient_factor(op, process_set, prescale_factor, postscale_factor)
        return _reduce_and_scatter(tensor, name, op, process_set, prescale_factor, postscale_factor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        gathered = allgather(grad * ctx.factor, ctx.name, ctx.process_set)
        return (gathered, *[None] * 5)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    output: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reduces a tensor over all ranks and gives each rank its share of the rows.

    Args:
        tensor: same shape and type on all ranks; the first ranks get one row more each when the
            rows are no multiple of the ranks.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        compression: how it travels.
        op: Average (default), Sum, Min, Max or Product.
        process_set: whose ranks take part.
        prescale_factor: multiplies the tensor before the reduction.
        postscale_factor: multiplies the result.
        output: memory for this rank's share, as of `allgather`; with `compression`, the share is
            copied there.
    """
    if (
        process_set is global_process_set
        and compression is NoneCompressor
        and FORWARD_MODE._current_level < 0  # noqa: SLF001 - see there
    ):
        done = CALLS.now.reducescatter(tensor, name, op, prescale_factor, postscale_factor, output)
        if done is not None:
            if done is output:
                return done
            if isinstance(done, str):
                return result_of(
                    start_unmet(
                        "reducescatter",
                        done,
                        partial(
                            reducescatter_async,
                            tensor,
                            op=choose_op(op, average=None),
                            prescale_factor=prescale_factor,
                            postscale_factor=postscale_factor,
                            output=output,
                        ),
                    )
                )
            return done if output is None else fill(output, done)
    factors = (prescale_factor, postscale_factor)
    if output is not None:
        refuse_gradient(tensor)
        if compression is NoneCompressor:
            handle = reducescatter_async(tensor, name, op, process_set, *factors, output=output)
            return result_of(handle)
    compressed, context = compression.compress(tensor)
    arguments = (compressed, name, op, process_set, *factors)
    scattered = (
        apply(_Reducescatter, *arguments)
        if needs_gradient(compressed)
        else _reduce_and_scatter(*arguments)
    )
    result = compression.decompress(scattered, context)
    return result if output is None else fill(output, result)
