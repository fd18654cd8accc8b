"""Compressed allreduces: converted by the core on their way, or by PyTorch before and after."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import horovod.torch as hvd
from horovod.torch.compression import BF16Compressor, Compressor, FP16Compressor
from horovod.torch.gradient_reduction import Reduction
from horovod.torch.gradients import GradientReducer
from turns.cases import Case, Work
from turns.torch_work import collective, gradients, tensor_on_pages


class FP16ByPyTorch(FP16Compressor):
    """A user's class, as far as the library can tell."""


class BF16ByPyTorch(BF16Compressor):
    """The same for bfloat16."""


COMPRESSORS: dict[str, type[Compressor]] = {
    "none": hvd.Compression.none,
    "float16": hvd.Compression.fp16,
    "float16 by PyTorch": FP16ByPyTorch,
    "bfloat16": hvd.Compression.bf16,
    "bfloat16 by PyTorch": BF16ByPyTorch,
}


def one_tensor(case: Case, rank: int, size: int) -> Work:
    """A blocking allreduce into a new tensor."""
    own = tensor_on_pages(case.count)
    compression = COMPRESSORS[case.variant]
    name = f"{case.variant}.{case.nbytes}"

    def call() -> torch.Tensor:
        return hvd.allreduce(own, op=hvd.Sum, name=name, compression=compression)

    plain = Case("allreduce", case.nbytes)
    return collective(plain, rank, size, {"allreduce": call}, own)


def optimizer_gradients(case: Case, tensors: Sequence[torch.Tensor], rank: int, size: int) -> Work:
    """What an optimizer does with gradients: starts all reductions, and waits for them."""
    parameters = [torch.nn.Parameter(torch.empty_like(each)) for each in reversed(tensors)]
    names: dict[torch.Tensor, str] = {
        each: f"{case.variant}.{index}" for index, each in enumerate(parameters)
    }
    for parameter, tensor in zip(parameters, reversed(tensors), strict=True):
        parameter.grad = tensor
    how = Reduction(hvd.Sum, COMPRESSORS[case.variant], 1.0, hvd.global_process_set)
    reducer = GradientReducer(names, how, passes=1)
    everything = [{"params": parameters}]
    reducer.watch(everything)

    work = gradients(list(tensors), rank, size, lambda: reducer.synchronize(everything))
    work.keep.append(reducer)
    return work
