"""Allgather on torch tensors."""

from functools import partial
from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod._operations import Operand
from horovod._reduce_op import Average
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
from horovod.torch.handles import result_of, start_unmet
from horovod.torch.operands import contiguous, fill, memory_for, operand
from horovod.torch.reduction import allreduce
from horovod.torch.started import STARTED


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
    if output is None and FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        handle = STARTED.now.allgather(tensor, name, registered_id(process_set))
        if handle is not None:
            return handle
    source = operand(contiguous(tensor))
    memory, finish = memory_for(output, source, partial(_rows_if_alike, source, process_set))
    return COLLECTIVES.allgather(
        source, finish, name=name, process_set=registered_id(process_set), output=memory
    )


def _rows_if_alike(source: Operand, process_set: ProcessSet) -> int:
    return source.shape[0] * size_of(process_set)


def _gather(tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> torch.Tensor:
    gathered, name = blocking.allgather(tensor, name, process_set)
    if gathered is not None:
        return gathered
    return result_of(
        start_unmet("allgather", name, lambda name: allgather_async(tensor, name, process_set))
    )


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
        rows = allgather(torch.tensor([ctx.rows], device="cpu"), name, ctx.process_set)
        before = int(rows[: ctx.process_set.rank()].sum())
        return reduced.narrow(0, before, ctx.rows), None, None


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
    if process_set is global_process_set and FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see there
        done = CALLS.now.allgather(tensor, name, output)
        if done is not None:
            if done is output:
                return done
            if isinstance(done, str):
                return result_of(
                    start_unmet("allgather", done, partial(allgather_async, tensor, output=output))
                )
            return done if output is None else fill(output, done)
    if output is not None:
        refuse_gradient(tensor)
        return result_of(allgather_async(tensor, name, process_set, output=output))
    if not needs_gradient(tensor):
        return _gather(tensor, name, process_set)
    gathered: torch.Tensor = apply(_Allgather, tensor, name, process_set)
    return gathered
