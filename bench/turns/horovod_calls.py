"""Collectives of horovod.torch."""

from __future__ import annotations

import torch

import horovod.torch as hvd
from horovod._session import SESSION
from turns.cases import Case, Work
from turns.gradient_sets import SHAPES, elements
from turns.torch_work import collective, gradients, tensor_on_pages
from turns.training import training_step


class HorovodCalls:
    """One rank that horovodrun has started."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        hvd.init()
        self.rank = hvd.rank()
        self.size = hvd.size()

    def facts(self) -> dict[str, str]:
        runtime = SESSION.member.runtime
        return {"transport": runtime.transport, "level": runtime.isa, "torch": torch.__version__}

    def barrier(self) -> None:
        hvd.barrier()

    def close(self) -> None:
        hvd.shutdown()

    def prepare(self, case: Case) -> Work:
        name = f"{case.work}.{case.dtype}.{case.nbytes}.{case.variant}"
        if case.work == "gradients":
            return self._gradients(case)
        if case.work == "step":
            return training_step(case, self._distribute)
        own = tensor_on_pages(case.count, case.dtype)
        calls = {
            "allreduce": lambda: hvd.allreduce_(own, op=hvd.Sum, name=name),
            "broadcast": lambda: hvd.broadcast_(own, 0, name=name),
            "allgather": lambda: hvd.allgather(own, name=name),
            "alltoall": lambda: hvd.alltoall(own, name=name),
            "reducescatter": lambda: hvd.reducescatter(own, op=hvd.Sum, name=name),
        }
        return collective(case, self.rank, self.size, calls, own)

    def _gradients(self, case: Case) -> Work:
        tensors = [tensor_on_pages(elements(shape)) for shape in SHAPES["resnet50"]]
        named = [(f"gradient.{index}", tensor) for index, tensor in enumerate(tensors)]

        def per_tensor() -> None:
            for name, tensor in named:
                hvd.allreduce_(tensor, op=hvd.Sum, name=name)

        def asynchronous() -> None:
            handles = [
                hvd.allreduce_async_(tensor, op=hvd.Sum, name=name)
                for name, tensor in reversed(named)
            ]
            for handle in handles:
                hvd.synchronize(handle)

        def grouped() -> None:
            hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="gradients")

        ways = {"per_tensor": per_tensor, "async": asynchronous, "grouped": grouped}
        return gradients(tensors, self.rank, self.size, ways[case.variant])

    @staticmethod
    def _distribute(
        model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def join() -> HorovodCalls:
    return HorovodCalls()
