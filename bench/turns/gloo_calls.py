"""Collectives of torch.distributed on its Gloo backend."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from turns.cases import Case, Work
from turns.torch_work import collective, gradients, gradients_of, tensor_on_pages
from turns.training import training_step


class GlooCalls:
    """One rank; its number and the file where ranks meet stand in the environment."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        store = dist.FileStore(os.environ["TURNS_STORE"], self.size)  # type: ignore[attr-defined]  # documented, but not in torch's __all__
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.size)

    def facts(self) -> dict[str, str]:
        return {"library": f"Gloo of torch {torch.__version__}"}

    def barrier(self) -> None:
        dist.barrier()

    def close(self) -> None:
        dist.destroy_process_group()

    def prepare(self, case: Case) -> Work:
        if case.work == "gradients":
            return self._gradients(case)
        if case.work == "step":
            return training_step(case, self._distribute)
        own = tensor_on_pages(case.count, case.dtype)
        sizes = {"allgather": self.size * case.count, "reducescatter": case.count // self.size}
        out = tensor_on_pages(sizes.get(case.work, case.count), case.dtype)

        def allreduce() -> torch.Tensor:
            dist.all_reduce(own)
            return own

        def broadcast() -> torch.Tensor:
            dist.broadcast(own, 0)
            return own

        def allgather() -> torch.Tensor:
            dist.all_gather_into_tensor(out, own)
            return out

        def alltoall() -> torch.Tensor:
            dist.all_to_all_single(out, own)
            return out

        def reducescatter() -> torch.Tensor:
            dist.reduce_scatter_tensor(out, own)
            return out

        calls = {
            "allreduce": allreduce,
            "broadcast": broadcast,
            "allgather": allgather,
            "alltoall": alltoall,
            "reducescatter": reducescatter,
        }
        return collective(case, self.rank, self.size, calls, own)

    def _gradients(self, case: Case) -> Work:
        tensors = gradients_of(case)

        def per_tensor() -> None:
            for tensor in tensors:
                dist.all_reduce(tensor)

        def asynchronous() -> None:
            handles = [dist.all_reduce(tensor, async_op=True) for tensor in reversed(tensors)]
            for handle in handles:
                handle.wait()

        call = {"per_tensor": per_tensor, "async": asynchronous}[case.variant]
        return gradients(tensors, self.rank, self.size, call)

    @staticmethod
    def _distribute(
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        shared: bool,  # noqa: ARG004 - there is no such memory here
    ) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        return wrapped, optimizer


def join() -> GlooCalls:
    return GlooCalls()
