"""Collectives of horovod.torch."""

from __future__ import annotations

import torch

import horovod.torch as hvd
from horovod._session import SESSION
from horovod.torch.bucket_layout import lay_out, view_of
from horovod.torch.buckets import bucket_bytes
from turns.cases import Case, Work
from turns.compressed_work import one_tensor, optimizer_gradients
from turns.gradient_sets import SHAPES, elements
from turns.mapped_memory import mapped_tensors, own_slices, reduce_pieces
from turns.torch_work import DTYPES, collective, gradients, gradients_of, tensor_on_pages
from turns.training import training_step


def distribute(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, shared: bool
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """As `turns.training` asks for it."""
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model, hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        gradient_as_bucket_view=shared,
    )


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
        if case.work == "compressed":
            return one_tensor(case, self.rank, self.size)
        if case.work == "compressed gradients":
            return optimizer_gradients(case, gradients_of(case), self.rank, self.size)
        if case.work == "step":
            return training_step(case, distribute)
        if case.variant == "arithmetic":
            return self._arithmetic(case)
        own = (
            hvd.shared_empty(case.count, dtype=DTYPES[case.dtype])
            if case.variant == "shared"
            else tensor_on_pages(case.count, case.dtype)
        )
        rows = {"allgather": self.size * case.count, "reducescatter": case.count // self.size}
        given = rows.get(case.work, case.count) if case.variant == "output" else 0
        out = tensor_on_pages(given, case.dtype) if given else None
        op = hvd.Average if case.variant == "average" else hvd.Sum
        calls = {
            "allreduce": lambda: hvd.allreduce_(own, op=op, name=name),
            "broadcast": lambda: hvd.broadcast_(own, 0, name=name),
            "allgather": lambda: hvd.allgather(own, name=name, output=out),
            "alltoall": lambda: hvd.alltoall(own, name=name, output=out),
            "reducescatter": lambda: hvd.reducescatter(own, op=hvd.Sum, name=name, output=out),
        }
        return collective(case, self.rank, self.size, calls, own)

    def _arithmetic(self, case: Case) -> Work:
        """What torch takes for a reduction in memory that all have mapped, without any waiting."""
        tensors = mapped_tensors(self.rank, self.size, case.count, case.dtype, hvd.allgather_object)
        own = tensors[self.rank]
        pieces = own_slices(tensors, self.rank)

        def check() -> bool:
            own.fill_(self.rank + 1)
            hvd.barrier()
            reduce_pieces(pieces)
            hvd.barrier()
            return bool((own == self.size * (self.size + 1) / 2).all())

        return Work(lambda: reduce_pieces(pieces), check, own.zero_)

    def _shared_gradients(self) -> Work:
        """The buckets of an optimizer that keeps gradients in shared memory."""
        sizes = [elements(shape) for shape in reversed(SHAPES["resnet50"])]
        parameters = [torch.empty(size) for size in sizes]
        (layout,) = lay_out(parameters, bucket_bytes(None, {}))
        memory = hvd.shared_empty(layout.ends[-1])
        tensors = [view_of(memory, layout.offsets[each], each) for each in parameters]
        buckets = [
            (f"bucket.{begin}", memory[begin:end])
            for begin, end in zip([0, *layout.ends], layout.ends, strict=False)
        ]

        def call() -> None:
            handles = [
                hvd.allreduce_async_(bucket, op=hvd.Sum, name=name) for name, bucket in buckets
            ]
            for handle in handles:
                hvd.synchronize(handle)

        return gradients(tensors, self.rank, self.size, call)

    def _gradients(self, case: Case) -> Work:
        if case.variant == "shared":
            return self._shared_gradients()
        tensors = gradients_of(case)
        named = [(f"gradient.{index}", tensor) for index, tensor in enumerate(tensors)]

        def per_tensor() -> None:
            for name, tensor in named:
                hvd.allreduce_(tensor, op=hvd.Sum, name=name)

        def asynchronous(op: int = hvd.Sum) -> None:
            handles = [
                hvd.allreduce_async_(tensor, op=op, name=name) for name, tensor in reversed(named)
            ]
            for handle in handles:
                hvd.synchronize(handle)

        def adaptive() -> None:
            asynchronous(hvd.Adasum)

        def grouped() -> None:
            hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="gradients")

        ways = {
            "per_tensor": per_tensor,
            "async": asynchronous,
            "grouped": grouped,
            "adasum": adaptive,
        }
        # Of parallel vectors an adaptive sum is the mean.
        return gradients(
            tensors, self.rank, self.size, ways[case.variant], average=case.variant == "adasum"
        )


def join() -> HorovodCalls:
    return HorovodCalls()
