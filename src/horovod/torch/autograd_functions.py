"""The autograd functions of the collectives under Horovod's names, with its arguments."""
# ruff: noqa: FBT001 - Horovod's signatures

from typing import Any

import torch

from horovod._reduce_op import choose_op
from horovod.common.process_sets import ProcessSet
from horovod.torch.broadcasting import _Broadcast
from horovod.torch.gathering import _Allgather
from horovod.torch.grouped import _GroupedAllgather, _GroupedAllreduce, _GroupedReducescatter
from horovod.torch.redistribution import _Alltoall, _Reducescatter
from horovod.torch.reduction import _Allreduce

HorovodAllgather = _Allgather
HorovodAlltoall = _Alltoall
HorovodBroadcast = _Broadcast
HorovodGroupedAllgather = _GroupedAllgather
HorovodGroupedReducescatter = _GroupedReducescatter
HorovodReducescatter = _Reducescatter


class HorovodAllreduce(torch.autograd.Function):
    """Allreduce whose operation is named in either of two ways."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        op = choose_op(op, average=average, adasum=True)
        factors = (prescale_factor, postscale_factor)
        return _Allreduce.forward(ctx, tensor, name, op, *factors, process_set, None)

    jvp = _Allreduce.jvp
    backward = _Allreduce.backward


class HorovodGroupedAllreduce(torch.autograd.Function):
    """Allreduce of several tensors whose operation is named in either of two ways."""

    @staticmethod
    def forward(
        ctx: Any,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> Any:
        op = choose_op(op, average=average, adasum=True)
        arguments = (name, op, prescale_factor, postscale_factor, process_set)
        return _GroupedAllreduce.forward(ctx, *arguments, [None] * len(tensors), *tensors)

    backward = _GroupedAllreduce.backward
