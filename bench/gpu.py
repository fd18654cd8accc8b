"""Collectives on GPUs through horovod.torch and through torch.distributed on NCCL, as ratios.

    horovodrun -np 2 python bench/gpu.py
    horovodrun -np 1 python bench/gpu.py --training

Both take turns in the same processes; a time is that of the call and of all that the GPU does for
it, the median of the rounds. Ranks that share a GPU (`--share`) are hosts of their own to NCCL, and
the driver lets them run in turns of milliseconds: what it says of small tensors there is little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

import horovod.torch as hvd
from turns.arguments import positive
from turns.gradient_sets import resnet50
from turns.rows import duration

SIZES = (4, 1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26)
OURS, PEER = "horovod", "torch.distributed"
Calls = Mapping[str, Callable[[], object]]


def once(call: Callable[[], object]) -> float:
    """Seconds that a call takes, and the GPU for it, once all ranks are there."""
    hvd.barrier()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def compare(label: str, calls: Calls, rounds: int, most_seconds: float = 1.0) -> None:
    """Prints the medians of calls that take turns, and how the first two compare."""
    for call in calls.values():
        once(call)
    one_round = sum(once(call) for call in calls.values())
    fewer = int(most_seconds / max(hvd.allgather_object(one_round)))
    rounds = max(3, min(rounds, fewer))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(once(call))
    if hvd.rank() != 0:
        return
    medians = {name: statistics.median(each) for name, each in times.items()}
    figures = "  ".join(f"{name} {duration(each)}" for name, each in medians.items())
    ours, peer, *_ = medians.values()
    print(f"{label:24} {ours / peer:5.2f}   {figures}  ({rounds} rounds)", flush=True)


def collectives(rounds: int) -> None:
    for nbytes in SIZES:
        values = torch.ones(nbytes // 4, device="cuda")
        sums: Calls = {
            OURS: partial(hvd.allreduce_, values, op=hvd.Sum, name="values"),
            PEER: partial(dist.all_reduce, values),
        }
        compare(f"allreduce {nbytes} B", sums, rounds)
    mine = torch.ones(1 << 18, device="cuda")
    everyones = torch.empty(hvd.size() << 18, device="cuda")
    share, received = torch.empty((1 << 18) // hvd.size(), device="cuda"), torch.empty_like(mine)
    others: dict[str, Calls] = {
        "average": {
            OURS: lambda: hvd.allreduce_(mine, name="mine"),
            PEER: lambda: dist.all_reduce(mine, op=dist.ReduceOp.AVG),
        },
        "broadcast": {
            OURS: lambda: hvd.broadcast_(mine, 0, name="mine"),
            PEER: lambda: dist.broadcast(mine, 0),
        },
        "allgather": {
            OURS: lambda: hvd.allgather(mine, name="mine"),
            PEER: lambda: dist.all_gather_into_tensor(everyones, mine),
        },
        "reducescatter": {
            OURS: lambda: hvd.reducescatter(mine, op=hvd.Sum, name="mine"),
            PEER: lambda: dist.reduce_scatter_tensor(share, mine),
        },
        "alltoall": {
            OURS: lambda: hvd.alltoall(mine, name="mine"),
            PEER: lambda: dist.all_to_all_single(received, mine),
        },
    }
    for name, calls in others.items():
        compare(f"{name} {mine.nbytes} B", calls, rounds)


def gradients(rounds: int) -> None:
    """ResNet-50's, one call each or as a group."""
    tensors = [torch.ones(prod(shape), device="cuda") for shape in resnet50()]

    def ours() -> None:
        names = range(len(tensors))
        started = [
            hvd.allreduce_async_(each, name=f"gradient {name}")
            for name, each in zip(names, tensors, strict=True)
        ]
        for handle in started:
            hvd.synchronize(handle)

    def peers() -> None:
        for work in [dist.all_reduce(each, async_op=True) for each in tensors]:
            work.wait()

    def coalesced() -> None:
        with dist._coalescing_manager():  # type: ignore[attr-defined]  # noqa: SLF001 - no other name
            for each in tensors:
                dist.all_reduce(each)

    compare("ResNet-50, one by one", {OURS: ours, PEER: peers}, rounds)
    group: Calls = {OURS: lambda: hvd.grouped_allreduce_(tensors), PEER: coalesced}
    compare("ResNet-50, a group", group, rounds)


def training(rounds: int, steps: int = 5) -> None:
    """ResNet-50 of torchvision, 64 images for each rank, bfloat16."""
    import torchvision  # type: ignore[import-not-found]  # noqa: PLC0415 - for those who ask

    def trainer(
        wrap: Callable[[torch.nn.Module], tuple[torch.nn.Module, torch.optim.Optimizer]],
    ) -> Callable[[], None]:
        torch.manual_seed(0)
        model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
        wrapped, optimizer = wrap(model)
        images = torch.randn(64, 3, 224, 224, device="cuda")
        images = images.to(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (64,), device="cuda")

        def run() -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                with torch.autocast("cuda", torch.bfloat16):
                    loss = torch.nn.functional.cross_entropy(wrapped(images), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()

        return run

    def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def ddp(model: torch.nn.Module) -> torch.nn.Module:
        return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    calls = {
        OURS: trainer(lambda m: (m, hvd.DistributedOptimizer(sgd(m), m.named_parameters()))),
        "DDP": trainer(lambda m: (ddp(m), sgd(m))),
        "alone": trainer(lambda m: (m, sgd(m))),
    }
    compare(f"{steps} steps of ResNet-50", calls, rounds, most_seconds=8.0)


def main(arguments: Sequence[str]) -> int:
    made = argparse.ArgumentParser(description="Time collectives on GPUs against PyTorch's.")
    made.add_argument("--rounds", type=positive, default=200, help="turns of each, at most (200)")
    made.add_argument("--share", action="store_true", help="all ranks use the first GPU")
    made.add_argument("--training", action="store_true", help="training steps too; torchvision")
    options = made.parse_args(arguments)
    if not torch.cuda.is_available():
        print("there is no GPU, or PyTorch has no code for it", file=sys.stderr)
        return 1
    hvd.init()
    if options.share:
        os.environ.update(NCCL_HOSTID=f"process {os.getpid()}", NCCL_SOCKET_IFNAME="lo")
    torch.cuda.set_device(0 if options.share else hvd.local_rank())
    # The others learn its port from rank 0.
    leads = hvd.rank() == 0
    store = TCPStore("127.0.0.1", 0, is_master=True) if leads else None
    port = hvd.broadcast_object(store.port if store else 0, 0)
    store = store or TCPStore("127.0.0.1", port)
    dist.init_process_group("nccl", store=store, rank=hvd.rank(), world_size=hvd.size())
    if hvd.rank() == 0:
        nccl = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
        device = torch.cuda.get_device_name()
        print(f"{hvd.size()} ranks, {device}, PyTorch {torch.__version__}, NCCL {nccl}")
        print(f"{'':24} ratio   medians")
    collectives(options.rounds)
    gradients(options.rounds)
    if options.training:
        training(options.rounds)
    dist.destroy_process_group()
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
