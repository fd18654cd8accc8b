"""One rank of `bench/scaling.py`: horovod.array and Gloo in turns, in the same processes."""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import horovod.array as hvd
from horovod._session import SESSION

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4, 64 * KIB, MIB, 16 * MIB)
COUNTS = (1, 10, 100, 1000, 10_000)
TENSOR_BYTES = KIB  # of each of many tensors
BLOCK_SECONDS = 0.03
GROUP = 200  # tensors of one
STARTS = 5  # times that a job is left and joined again
PER_HOST = 8  # ranks of each of many hosts, which are one
STEP = 161  # gradients of a ResNet-50
FANOUTS = {"direct": "0", "collected": "16"}  # HOROVOD_CONTROL_FANOUT

Call = Callable[[], object]


def slowest(seconds: list[float]) -> list[float]:
    """The elementwise maximum over the ranks."""
    return [float(value) for value in hvd.allreduce(np.array(seconds), op=hvd.Max)]


def join_gloo() -> Any:
    """Makes the ranks a Gloo group as well; None where there is no torch."""
    try:
        import torch.distributed as dist  # noqa: PLC0415 - a peer that may be missing
    except ImportError:
        return None
    rank, size = hvd.rank(), hvd.size()
    host = os.environ.get("HOROVOD_HOSTNAME", "")
    near = not host.startswith("10.")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if near else "eth0"
    own = "127.0.0.1" if near else host
    connect = dist.TCPStore  # type: ignore[attr-defined] # documented, but not in torch's __all__
    store = connect(own, 0, is_master=True, wait_for_workers=False) if rank == 0 else None
    address = hvd.broadcast_object((own, store.port) if store is not None else None, root_rank=0)
    if store is None:
        store = connect(address[0], address[1], is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    return dist


def in_turns(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Medians over the rounds of a call's seconds on the slowest rank."""
    repetitions = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        once = slowest([time.perf_counter() - start])[0]
        repetitions[name] = min(1000, max(1, int(BLOCK_SECONDS / once)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            hvd.barrier()
            start = time.perf_counter()
            for _ in range(repetitions[name]):
                call()
            seconds[name].append((time.perf_counter() - start) / repetitions[name])
    return {name: statistics.median(slowest(each)) for name, each in seconds.items()}


def control_seconds() -> float:
    """Processor time of the thread that agrees with the other ranks."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "hvd-control":
            return int((task / "schedstat").read_text().split()[0]) / 1e9
    return 0.0


def measure_sizes(gloo: Any, rounds: int) -> list[dict[str, Any]]:
    """Allreduces of one tensor, and what agreeing alone takes."""
    rows: list[dict[str, Any]] = [{"work": "barrier"} | in_turns({"ours": hvd.barrier}, rounds)]
    for nbytes in SIZES:
        values = np.zeros(max(1, nbytes // 4), np.float32)

        def blocking(values: Any = values) -> None:
            hvd.allreduce_(values, op=hvd.Sum, name="blocking")

        def asynchronous(values: Any = values) -> None:
            hvd.synchronize(hvd.allreduce_async_(values, op=hvd.Sum, name="asynchronous"))

        calls: dict[str, Call] = {"ours": blocking, "async": asynchronous}
        if gloo is not None:
            import torch  # noqa: PLC0415 - as above

            calls["gloo"] = functools.partial(gloo.all_reduce, torch.from_numpy(values))
        rows.append({"work": "allreduce", "bytes": nbytes} | in_turns(calls, rounds))
    return rows


def measure_agreement(calls: int = 300) -> float:
    """Processor time of rank 0's control thread for an agreement on a known name."""
    value = np.zeros(1, np.float32)
    hvd.barrier()
    before = control_seconds()
    for _ in range(calls):
        hvd.synchronize(hvd.allreduce_async_(value, op=hvd.Sum, name="known"))
    used = (control_seconds() - before) / calls
    return slowest([used if hvd.rank() == 0 else 0.0])[0]


def measure_message(rounds: int) -> float:
    """Seconds of one step of an allreduce: a group whose tensors are reduced one by one, or as one.

    Both ways agree once; the first takes as many steps more as there are further tensors.
    """
    tensors = [np.zeros(1, np.float32) for _ in range(GROUP)]
    seconds = []
    for threshold in ("0", str(MIB)):
        os.environ["HOROVOD_FUSION_THRESHOLD"] = threshold
        hvd.barrier()
        hvd.shutdown()
        hvd.init()

        def reduce() -> None:
            hvd.synchronize(hvd.grouped_allreduce_async_(tensors, op=hvd.Sum, name="group"))

        seconds.append(in_turns({"ours": reduce}, rounds)["ours"])
    del os.environ["HOROVOD_FUSION_THRESHOLD"]
    return max(seconds[0] - seconds[1], 0) / (GROUP - 1)


def measure_tensors(gloo: Any, rounds: int, counts: tuple[int, ...]) -> list[dict[str, Any]]:
    """Many small tensors in flight."""
    rows = []
    for count in counts:
        tensors = [np.zeros(TENSOR_BYTES // 4, np.float32) for _ in range(count)]

        def ours(tensors: list[Any] = tensors) -> None:
            handles = [
                hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"t{len(tensors)}.{i}")
                for i, tensor in enumerate(tensors)
            ]
            for handle in handles:
                hvd.synchronize(handle)

        hvd.barrier()
        start = time.perf_counter()
        ours()
        first = slowest([time.perf_counter() - start])[0]
        calls: dict[str, Call] = {"ours": ours}
        if gloo is not None:
            import torch  # noqa: PLC0415 - as above

            shared = [torch.from_numpy(tensor) for tensor in tensors]

            def theirs(shared: list[Any] = shared) -> None:
                for work in [gloo.all_reduce(tensor, async_op=True) for tensor in shared]:
                    work.wait()

            calls["gloo"] = theirs
        rows.append({"tensors": count, "first": first} | in_turns(calls, rounds))
    return rows


def measure_starts() -> float:
    """Median of the seconds from `init()` to the first agreement, in processes that run already."""
    seconds = []
    for _ in range(STARTS):
        hvd.barrier()
        hvd.shutdown()
        start = time.perf_counter()
        hvd.init()
        hvd.barrier()
        seconds.append(time.perf_counter() - start)
    return statistics.median(slowest(seconds))


def pretend_hosts() -> None:
    """Gives every eight ranks of this machine a host name of their own, before they start."""
    rank, size = (int(os.environ[f"HOROVOD_{name}"]) for name in ("RANK", "SIZE"))
    places = {
        "HOSTNAME": f"host{rank // PER_HOST}",
        "LOCAL_RANK": rank % PER_HOST,
        "LOCAL_SIZE": PER_HOST,
        "CROSS_RANK": rank // PER_HOST,
        "CROSS_SIZE": size // PER_HOST,
    }
    os.environ.update({f"HOROVOD_{name}": str(value) for name, value in places.items()})


def measure_many(rounds: int) -> dict[str, dict[str, float]]:
    """Medians of rank 0's processor time where it hears all ranks, and where some collect for it.

    Returns:
        For each of these the seconds of a barrier and of a step of named tensors, which are known
        by number, and those that a barrier takes by the clock.
    """
    tensors = [np.zeros(1, np.float32) for _ in range(STEP)]

    def step() -> None:
        for handle in [
            hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"gradient{i}")
            for i, tensor in enumerate(tensors)
        ]:
            hvd.synchronize(handle)

    found: dict[str, dict[str, list[float]]] = {
        name: {"barrier": [], "step": [], "barrier_clock": []} for name in FANOUTS
    }
    for _ in range(rounds):
        for name, fanout in FANOUTS.items():
            os.environ["HOROVOD_CONTROL_FANOUT"] = fanout
            hvd.barrier()
            hvd.shutdown()
            hvd.init()
            works: tuple[tuple[str, Call, int], ...] = (
                ("barrier", hvd.barrier, 30),
                ("step", step, 5),
            )
            for work, call, repetitions in works:
                for _ in range(2):
                    call()
                clock, used = time.perf_counter(), time.process_time()
                for _ in range(repetitions):
                    call()
                found[name][work].append((time.process_time() - used) / repetitions)
                if work == "barrier":
                    passed = time.perf_counter() - clock
                    found[name]["barrier_clock"].append(passed / repetitions)
    return {
        name: {work: statistics.median(seconds) for work, seconds in works.items()}
        for name, works in found.items()
    }


def measure_part(options: argparse.Namespace) -> dict[str, Any]:
    """What is measured beside Gloo: the sizes or the numbers of tensors."""
    message = measure_message(options.rounds) if options.part == "sizes" else 0
    start = measure_starts()
    gloo = None if options.no_gloo else join_gloo()
    result: dict[str, Any] = {
        "ranks": hvd.size(),
        "local_size": hvd.local_size(),
        "transport": SESSION.member.runtime.transport,
        "start": start,
        "message": message,
    }
    if options.part == "sizes":
        result["rows"] = measure_sizes(gloo, options.rounds)
        result["control_cpu"] = measure_agreement()
    else:
        counts = tuple(count for count in COUNTS if count <= options.most_tensors)
        result["rows"] = measure_tensors(gloo, options.rounds, counts)
    if gloo is not None:
        gloo.destroy_process_group()
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("sizes", "tensors", "many"))
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--most-tensors", type=int, default=COUNTS[-1])
    parser.add_argument("--no-gloo", action="store_true")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.part == "many":
        pretend_hosts()
    hvd.init()
    if options.part == "many":
        result: dict[str, Any] = {"ranks": hvd.size(), **measure_many(options.rounds)}
    else:
        result = measure_part(options)
    if hvd.rank() == 0:
        options.output.write_text(json.dumps(result))
    hvd.barrier()
    hvd.shutdown()


if __name__ == "__main__":
    main()
