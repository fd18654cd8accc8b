"""Allreduce, allgather, broadcast, join and barrier on torch tensors."""
# ruff: noqa: FBT001 - Horovod's signatures

from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod._reduce_op import Adasum, Average, choose_op
from horovod._session import SESSION
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id
from horovod.torch import blocking
from horovod.torch.adasum import combine_all, require_power_of_2
from horovod.torch.blocking import CALLS
from horovod.torch.compression import Compression, Compressor, NoneCompressor, outgoing
from horovod.torch.operands import (
    contiguous,
    copying_back,
    fill,
    from_buffer,
    new_result,
    operand,
    output_operand,
    receiving,
)


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
    """
    work = contiguous(tensor)
    if op == Adasum:
        return _start_adasum(
            tensor if in_place else None, work, name, prescale_factor, postscale_factor, process_set
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


def _start_adasum(
    target: torch.Tensor | None,
    work: torch.Tensor,
    name: str | None,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> int:
    """Gathers all ranks' tensors and combines them here, the same on all ranks."""
    require_power_of_2(process_set.size())
    if not work.dtype.is_floating_point:
        raise ValueError(f"Adasum adds floating-point tensors, not {work.dtype}")

    def finish(buffer: Any) -> torch.Tensor:
        gathered = from_buffer(buffer)
        result = combine_all(gathered.mul_(prescale_factor).unbind())
        result.mul_(postscale_factor)
        if target is None:
            return result
        with torch.no_grad():
            return target.copy_(result)

    return COLLECTIVES.allgather(
        operand(work.unsqueeze(0)), finish, name=name, process_set=registered_id(process_set)
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
        op: Average (default), Sum, Min, Max or Product.
        prescale_factor: multiplies the tensor before the reduction.
        postscale_factor: multiplies the result.
        process_set: whose ranks take part.

    Returns:
        A handle for `poll` and `synchronize`.
    """
    op = op if op == Adasum else choose_op(op, average=average)
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
    """Like `allreduce_async`, in place: the tensor must not be touched until `synchronize`."""
    op = op if op == Adasum else choose_op(op, average=average)
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
    return result_of(start_allreduce(tensor, name, *how, in_place=in_place, wire_dtype=wire_dtype))


def needs_gradient(tensor: object) -> bool:
    """Whether a call has to go through autograd, which costs more than a small reduction."""
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled()


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
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        name, *rest = ctx.arguments
        reduced = apply(_Allreduce, grad, gradient_name(name), *rest, ctx.wire_dtype)
        return (reduced, *[None] * 6)


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Runs a function of autograd's."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


def gradient_name(name: str | None) -> str | None:
    """The name of the operation that the backward pass of another one starts."""
    return None if name is None else f"{name}.grad"


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
        op: Average (default), Sum, Min, Max or Product.
        prescale_factor: multiplies the tensor before the reduction.
        postscale_factor: multiplies the result.
        process_set: whose ranks take part.
    """
    if process_set is global_process_set and average is None and compression is NoneCompressor:
        done = CALLS.now.allreduce(tensor, name, op, prescale_factor, postscale_factor)
        if isinstance(done, str):
            return result_of(
                allreduce_async(tensor, None, done, op, prescale_factor, postscale_factor)
            )
        if done is not None:
            return done
    op = op if op == Adasum else choose_op(op, average=average)
    sent, ctx, wire_dtype = outgoing(tensor, compression, op)
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
    """Like `allreduce`, in place and without a gradient."""
    if process_set is global_process_set and average is None:
        done = CALLS.now.allreduce_(tensor, name, op, prescale_factor, postscale_factor)
        if isinstance(done, str):
            return result_of(
                allreduce_async_(tensor, None, done, op, prescale_factor, postscale_factor)
            )
        if done is not None:
            return done
    op = op if op == Adasum else choose_op(op, average=average)
    return _allreduce_into(
        tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=True
    )


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: torch.Tensor | None = None,
) -> int:
    """Starts joining all ranks' tensors along their first dimension; arguments as of `allgather`.

    Until `synchronize`, neither `tensor` nor `output` may be touched.
    """
    source = operand(contiguous(tensor))
    return COLLECTIVES.allgather(
        source,
        receiving(output),
        name=name,
        process_set=registered_id(process_set),
        output=output_operand(output, source),
    )


def _gather(tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> torch.Tensor:
    gathered, name = blocking.allgather(tensor, name, process_set)
    if gathered is not None:
        return gathered
    return result_of(allgather_async(tensor, name, process_set))


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.name = name
        ctx.process_set = process_set
        ctx.rows = tensor.shape[0] if tensor.dim() else 1
        return _gather(tensor, name, process_set)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        name = gradient_name(ctx.name)
        reduced = allreduce(grad, name=name, op=Average, process_set=ctx.process_set)
        rows = allgather(torch.tensor([ctx.rows]), name, ctx.process_set)
        before = int(rows[: ctx.process_set.rank()].sum())
        return reduced.narrow(0, before, ctx.rows), None, None


def refuse_gradient(tensor: object) -> None:
    """Refuses a tensor that needs a gradient where the caller has given an output.

    Raises:
        ValueError: it needs one.
    """
    if needs_gradient(tensor):
        raise ValueError(
            "output= takes no part in automatic differentiation, but the tensor needs a gradient;"
            " leave output out, or call under torch.no_grad()"
        )


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: torch.Tensor | None = None,
) -> torch.Tensor:
    """Joins all ranks' tensors along their first dimension.

    Args:
        tensor: same type and shape on all ranks, but for the first dimension.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        process_set: whose ranks take part.
        output: contiguous memory of the result's shape and type, apart from `tensor`, which then
            is what is returned; not in Horovod, and each rank's own affair. Without a gradient.
    """
    if process_set is global_process_set:
        done = CALLS.now.allgather(tensor, name, output)
        if isinstance(done, str):
            return result_of(allgather_async(tensor, done, output=output))
        if done is not None:
            return done if output is None else fill(output, done)
    if output is not None:
        refuse_gradient(tensor)
        return result_of(allgather_async(tensor, name, process_set, output=output))
    if not needs_gradient(tensor):
        return _gather(tensor, name, process_set)
    gathered: torch.Tensor = apply(_Allgather, tensor, name, process_set)
    return gathered


def _start_broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
    *,
    in_place: bool,
) -> int:
    work = contiguous(tensor)
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
    return result_of(_start_broadcast(tensor, root_rank, name, process_set, in_place=in_place))


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
            reduced = reduced * 0
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
    if process_set is global_process_set:
        done = CALLS.now.broadcast(tensor, name, root_rank)
        if isinstance(done, str):
            return result_of(broadcast_async(tensor, root_rank, done))
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
    """Like `broadcast`, in place and without a gradient."""
    if process_set is global_process_set:
        done = CALLS.now.broadcast_(tensor, name, root_rank)
        if isinstance(done, str):
            return result_of(broadcast_async_(tensor, root_rank, done))
        if done is not None:
            return done
    return _broadcast_into(tensor, root_rank, name, process_set, in_place=True)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks of a process set have come here."""
    if process_set is global_process_set:
        met = CALLS.now.barrier()
        if isinstance(met, str):
            return COLLECTIVES.barrier(name=met)
        if met is not None:
            return None
    done, name = blocking.barrier(process_set)
    if not done:
        COLLECTIVES.barrier(registered_id(process_set), name=name)
    return None


def join(device: int = -1) -> int:  # noqa: ARG001 - Horovod's signature; it named a GPU
    """Takes part with zeros in the others' allreduces until all ranks have joined.

    Returns:
        The last rank that joined, the same on all ranks.
    """
    return COLLECTIVES.join()


def poll(handle: int) -> bool:
    """Whether an operation is done, so that `synchronize` returns at once."""
    return COLLECTIVES.poll(handle)


def result_of(handle: int) -> torch.Tensor:
    """Waits for an operation whose result is one tensor."""
    result: torch.Tensor = synchronize(handle)
    return result


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result; None for a handle that is not known.

    Raises:
        HorovodInternalError: the operation failed on all ranks, or a rank was lost.
    """
    return COLLECTIVES.synchronize(handle)
