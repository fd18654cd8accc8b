"""What GPUs alone have: graphs, streams, memory of their own. Nothing on a machine without one."""

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.gpu_of_rank import has_gpus, place


def busy(device: torch.device) -> Any:
    """Gives a stream of its own work for some tenths of a second; returns the event behind it."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    factor = torch.randn(4096, 4096, device=device)
    end = torch.cuda.Event()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize(device)
    with torch.cuda.stream(stream):
        for _ in range(100):
            factor = (factor @ factor).clamp(-1, 1)
        end.record(stream)
    return end


def check_operations_are_refused_where_a_graph_is_captured() -> None:
    mine = torch.ones(100, device=place())
    calls: list[Callable[[], object]] = [
        lambda: hvd.allreduce(mine),
        lambda: hvd.allreduce_async_(mine),
        lambda: hvd.grouped_allreduce([mine, mine[:3]]),
        lambda: hvd.allgather(mine),
        lambda: hvd.reducescatter(mine),
    ]
    for call in calls:
        if not has_gpus():
            break
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = mine * 2  # a graph of nothing gives a warning
            with pytest.raises(ValueError, match="cannot be captured in a graph"):
                call()
        graph.replay()
        assert kept.eq(2).all()
    assert hvd.allreduce(mine, op=hvd.Sum).eq(hvd.size()).all()


def check_graphs_are_captured_while_operations_run() -> None:
    device = place()
    tensors = [torch.ones(1 << 18, device=device) for _ in range(20)]
    static = torch.ones(1000, device=device)
    for _ in range(3):
        handles = [hvd.allreduce_async(each, op=hvd.Sum) for each in tensors]
        if has_gpus():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # in which no other thread may do as it likes
                doubled = static * 2
                time.sleep(0.005)
            graph.replay()
            assert doubled.eq(2).all()
        for handle in handles:
            assert hvd.synchronize(handle).eq(hvd.size()).all()


def check_threads_with_streams_of_their_own() -> None:
    device = place()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = torch.cuda.Stream(device) if has_gpus() else None  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                for turn in range(10):
                    mine = torch.full((1000,), float(number + turn), device=device)
                    found = hvd.allreduce(mine, op=hvd.Sum, name=f"of thread {number}")
                    assert found.eq(hvd.size() * (number + turn)).all()
        # Whatever a thread raises is the check's outcome.
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def check_more_than_2_31_elements() -> None:
    device = place()
    if not has_gpus() or torch.cuda.mem_get_info(device)[0] < hvd.size() * (12 << 30):
        return
    mine = torch.ones((1 << 31) + 1001, dtype=torch.int8, device=device)
    hvd.allreduce_(mine, op=hvd.Sum, postscale_factor=3.0)
    assert mine.eq(3 * hvd.size()).all()
    del mine
    torch.cuda.empty_cache()


def check_results_lie_in_pytorchs_memory_where_ranks_are_alike() -> None:
    """Which takes less time than the driver's, and can be given back while the GPU is at work."""
    device = place()
    if not has_gpus():
        return
    mine = torch.ones(hvd.size() * (1 << 16), device=device)
    calls: list[Callable[[], torch.Tensor]] = [
        lambda: hvd.allgather(mine),
        lambda: hvd.reducescatter(mine, op=hvd.Sum),
        lambda: hvd.alltoall(mine),
        lambda: hvd.synchronize(hvd.alltoall_async(mine, [1 << 16] * hvd.size()))[0],
        lambda: hvd.synchronize(hvd.reducescatter_async(mine)),
    ]
    for number, call in enumerate(calls):
        before = torch.cuda.memory_allocated(device)
        found = call()
        assert torch.cuda.memory_allocated(device) >= before + found.nbytes, number
        assert found.eq(hvd.size() if number == 1 else 1).all()
        del found
    found = hvd.allgather(mine)
    end = busy(device)
    del found
    assert not end.query(), "who gives a result back waits for all that the GPU has to do"
    end.synchronize()


def check_the_bindings_start_operations_on_gpus() -> None:
    """Which takes a few microseconds, where Python takes dozens: their handles are odd."""
    mine = torch.ones(hvd.size(), 3, device=place())
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__") or torch.version.hip:
        return
    handles = [
        hvd.allreduce_async(mine, op=hvd.Sum),
        hvd.allreduce_async_(mine.clone(), op=hvd.Sum),
        hvd.grouped_allreduce_async([mine, mine], op=hvd.Sum),
        hvd.broadcast_async(mine, 0),
        hvd.allgather_async(mine),
        hvd.reducescatter_async(mine, op=hvd.Sum),
        hvd.alltoall_async(mine, [1] * hvd.size()),
    ]
    assert all(handle % 2 for handle in handles), handles
    results = [hvd.synchronize(handle) for handle in handles]
    for index in (0, 1, 5):
        assert results[index].eq(hvd.size()).all(), index
    assert all(each.eq(hvd.size()).all() for each in results[2])
    assert results[4].shape == (hvd.size() ** 2, 3)
    received, counts = results[6]
    assert received.eq(1).all()
    assert counts.tolist() == [1] * hvd.size()
    # Ranks that are unlike get memory of the core's.
    unlike = torch.full((hvd.rank() + 1, 2), float(hvd.rank()), device=place())
    found = hvd.allgather(unlike)
    assert found.device == mine.device
    assert found[:, 1].tolist() == [float(r) for r in range(hvd.size()) for _ in range(r + 1)]


def check_memory_of_unlike_ranks_is_given_back() -> None:
    device = place()
    mine = torch.ones((hvd.rank() + 1) << 20, device=device)
    if not has_gpus():
        return
    hvd.allgather(mine[: 1 + hvd.rank()])
    gc.collect()
    torch.cuda.synchronize(device)
    hvd.barrier()
    before = torch.cuda.mem_get_info(device)[0]
    for _ in range(20):
        assert hvd.allgather(mine).sum() == sum(range(1, hvd.size() + 1)) << 20
    torch.cuda.synchronize(device)
    hvd.barrier()
    lost = before - torch.cuda.mem_get_info(device)[0]
    # PyTorch keeps what it compares in, on every rank of the GPU.
    assert lost < 16 * hvd.size() << 20, f"{lost >> 20} MiB"


def check_operations_go_before_other_work() -> None:
    device = place()
    if not has_gpus() or hvd.size() > 1:  # ranks that share a GPU wait for each other's turn
        return
    mine = torch.ones(1000, device=device)
    hvd.allreduce(mine)
    end = busy(device)
    hvd.allreduce_(mine)
    assert not end.query()
    end.synchronize()


def open_files() -> list[str]:
    """What this process's descriptors lead to, but for the one that lists them."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def check_jobs_leave_nothing() -> None:
    device = place()
    mine = torch.ones(1 << 20, device=device)
    files, threads, free = [], [], []
    for _ in range(6):
        hvd.shutdown()
        # A job may watch the other rank's process, or not, according to where the cores are.
        files.append(open_files())
        hvd.init()
        assert hvd.allreduce(mine, op=hvd.Sum).eq(hvd.size()).all()
        hvd.allgather(mine)
        hvd.barrier()
        threads.append(sum(1 for _ in Path("/proc/self/task").iterdir()))
        free.append(torch.cuda.mem_get_info(device)[0] >> 20 if has_gpus() else 0)  # MiB
        hvd.barrier()
    assert len(files[-1]) == len(files[1]), files
    assert threads[-1] == threads[1], threads
    assert free[-1] >= free[1] - 8 * hvd.size(), free  # others' caches take some


def check_the_timeline_shows_nccl() -> None:
    mine = torch.ones(1000, device=place())
    path = Path(f"/tmp/gpu timeline {os.getpid()}.json")  # noqa: S108 - a name of its own
    hvd.start_timeline(str(path))
    hvd.allreduce(mine, name="in the timeline")
    hvd.stop_timeline()
    if hvd.rank() == 0:
        text = path.read_text()
        assert "in the timeline" in text
        assert ("NCCL_ALLREDUCE" in text) == has_gpus()
    path.unlink(missing_ok=True)
