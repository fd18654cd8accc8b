"""Several Python threads of a rank at once, each with operations of its own names."""

import random
import sys
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import horovod.array as hvd

THREADS = 4
ROUNDS = 40
DEADLINE = 120.0


def on_threads(work: Callable[[int], object]) -> list[object]:
    """What a function of the thread's number returns on each, all let go at once."""
    start = threading.Barrier(THREADS)

    def run(thread: int) -> object:
        start.wait(DEADLINE)
        return work(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return [done.result(DEADLINE) for done in [pool.submit(run, i) for i in range(THREADS)]]


def sum_of(value: int) -> int:
    """What `value + rank` comes to on all ranks together."""
    return hvd.size() * value + sum(range(hvd.size()))


def check_a_free_threaded_python_stays_so() -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled()  # type: ignore[attr-defined]


def check_named_operations_of_every_kind_from_threads() -> None:
    rank, size = hvd.rank(), hvd.size()

    def work(thread: int) -> None:
        for i in range(ROUNDS):
            name, base = f"thread{thread}.{i}", 100 * thread + i
            mine = np.full(3, base + rank)
            assert hvd.allreduce(mine, name, hvd.Sum).tolist() == [sum_of(base)] * 3
            handle = hvd.allreduce_async(mine, f"{name}.async", hvd.Sum)
            gathered = hvd.allgather(mine[:1], name)
            assert gathered.tolist() == [base + other for other in range(size)]
            hvd.poll(handle)
            assert hvd.synchronize(handle).tolist() == [sum_of(base)] * 3
            root = i % size
            assert hvd.broadcast(mine, root, name).tolist() == [base + root] * 3
            parts = hvd.alltoall(np.arange(size) + base, name=name)
            assert parts.tolist() == [base + rank] * size
            part = hvd.reducescatter(np.full(size, base + rank), name, hvd.Sum)
            assert part.tolist() == [sum_of(base)]
            group = hvd.grouped_allreduce([mine, mine + 1], name=f"{name}.group", op=hvd.Sum)
            assert [each[0] for each in group] == [sum_of(base), sum_of(base + 1)]

    on_threads(work)


def check_unnamed_operations_are_numbered_apart_for_each_kind() -> None:
    mine = np.array([hvd.rank() + 1])
    total = sum_of(1)
    kinds: list[Callable[[], int]] = [
        lambda: int(hvd.allreduce(mine, op=hvd.Sum)[0]),
        lambda: int(hvd.allgather(mine).sum()),
        lambda: int(hvd.broadcast(mine, hvd.size() - 1)[0]) + total - hvd.size(),
        lambda: int(hvd.alltoall(np.repeat(mine, hvd.size())).sum()),
    ]

    def work(thread: int) -> list[int]:
        return [kinds[thread]() for _ in range(ROUNDS)]

    assert on_threads(work) == [[total] * ROUNDS] * THREADS


def check_handles_are_waited_for_by_other_threads() -> None:
    handles: list[list[int]] = [[] for _ in range(THREADS)]

    def begin(thread: int) -> None:
        for i in range(ROUNDS):
            mine = np.array([thread + i + hvd.rank()])
            handles[thread].append(hvd.allreduce_async(mine, f"begin{thread}.{i}", hvd.Sum))

    def end(thread: int) -> None:
        other = (thread + 1) % THREADS
        order = list(enumerate(handles[other]))
        random.Random(hvd.rank()).shuffle(order)  # noqa: S311 - an order
        for i, handle in order:
            assert hvd.synchronize(handle).tolist() == [sum_of(other + i)]

    on_threads(begin)
    on_threads(end)
    assert len({handle for each in handles for handle in each}) == THREADS * ROUNDS


def check_of_threads_that_wait_for_one_handle_one_gets_the_result() -> None:
    for i in range(ROUNDS):
        handle = hvd.allgather_async(np.array([hvd.rank()]), f"shared{i}")

        def wait(_: int, handle: int = handle) -> object:
            return hvd.synchronize(handle)

        results = on_threads(wait)
        (found,) = [result for result in results if result is not None]
        assert np.asarray(found).tolist() == list(range(hvd.size()))
        assert hvd.synchronize(handle) is None


def check_process_sets_are_added_and_removed_beside_other_threads() -> None:
    done = threading.Event()

    def work(thread: int) -> None:
        if thread == 0:
            try:
                for _ in range(ROUNDS // 4):
                    ranks = hvd.add_process_set([hvd.size() - 1])
                    if ranks.included():
                        assert hvd.allreduce(np.array([7]), "alone", process_set=ranks)[0] == 7
                    assert hvd.remove_process_set(ranks)
            finally:
                done.set()
            return
        if thread == 1:
            while not done.is_set():
                assert hvd.global_process_set.ranks == list(range(hvd.size()))
            return
        for i in range(ROUNDS):
            mine = np.array([hvd.rank()])
            assert hvd.allreduce(mine, f"beside{thread}.{i}", hvd.Sum).tolist() == [sum_of(0)]

    on_threads(work)
