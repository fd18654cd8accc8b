"""Collectives of mpi4py, on whichever MPI its environment holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from turns.cases import Case, Work, pages
from turns.gradient_sets import SHAPES, elements


class MpiCalls:
    """One rank of an MPI job; float32 alone, since MPI has no other type that all of them add."""

    def __init__(self) -> None:
        self._comm = MPI.COMM_WORLD
        self.rank = self._comm.rank
        self.size = self._comm.size

    def facts(self) -> dict[str, str]:
        return {"library": MPI.Get_library_version().split(",")[0].split("\n")[0].strip("\0 ")}

    def barrier(self) -> None:
        self._comm.Barrier()

    def close(self) -> None:
        MPI.Finalize()

    def prepare(self, case: Case) -> Work:
        if case.work == "gradients":
            return self._gradients(case)
        comm, size, count = self._comm, self.size, case.count
        part = count // size
        own = np.frombuffer(pages(4 * count), dtype=np.float32)[:count]
        out_count = {"allgather": size * count, "alltoall": count, "reducescatter": part}
        out = np.frombuffer(pages(4 * out_count.get(case.work, 1)), dtype=np.float32)
        out = out[: out_count.get(case.work, 1)]
        float32 = MPI.FLOAT
        calls: dict[str, Callable[[], object]] = {
            "allreduce": lambda: comm.Allreduce(MPI.IN_PLACE, [own, count, float32]),
            "broadcast": lambda: comm.Bcast([own, count, float32], 0),
            "allgather": lambda: comm.Allgather([own, count, float32], [out, count, float32]),
            "alltoall": lambda: comm.Alltoall([own, part, float32], [out, part, float32]),
            "reducescatter": lambda: comm.Reduce_scatter_block(
                [own, part, float32], [out, part, float32]
            ),
        }
        call = calls[case.work]

        def check() -> bool:
            own[:] = self.rank + 1
            out[:] = 0
            call()
            total = size * (size + 1) / 2
            if case.work == "allreduce":
                return bool((own == total).all())
            if case.work == "broadcast":
                return bool((own == 1).all())
            if case.work == "reducescatter":
                return bool((out == total).all())
            blocks = out.reshape(size, -1)
            return all(bool((blocks[rank] == rank + 1).all()) for rank in range(size))

        return Work(call, check, lambda: own.fill(0.0))

    def _gradients(self, case: Case) -> Work:
        tensors = []
        for shape in SHAPES["resnet50"]:
            count = elements(shape)
            tensors.append(np.frombuffer(pages(4 * count), dtype=np.float32)[:count])
        specs = [[tensor, tensor.size, MPI.FLOAT] for tensor in tensors]
        if case.variant not in {"", "per_tensor"}:
            raise ValueError(f"MPI has no way {case.variant!r} to reduce gradients")

        def call() -> None:
            for spec in specs:
                self._comm.Allreduce(MPI.IN_PLACE, spec)

        def check() -> bool:
            for tensor in tensors:
                tensor[:] = self.rank + 1
            call()
            total = self.size * (self.size + 1) / 2
            return all(bool((tensor == total).all()) for tensor in tensors)

        def reset() -> None:
            for tensor in tensors:
                tensor[:] = 0

        return Work(call, check, reset)


def join() -> MpiCalls:
    return MpiCalls()
