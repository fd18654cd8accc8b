"""Threads of a rank that start, end and use the job at once; prints how many sums they made."""
# ruff: noqa: T201 - the test reads what is printed

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import horovod.array as hvd

ROUNDS = 15
DEADLINE = 120.0
NOT_INITIALIZED = "Horovod has not been initialized; use hvd.init()."
SHUT_DOWN = "Horovod has been shut down."


def at_once(*works: Callable[[], object]) -> None:
    """Calls each function on a thread of its own; raises what one of them has raised."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        start.wait(DEADLINE)
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(run, work) for work in works]:
            done.result(DEADLINE)


def use_until_the_end(thread: int, in_use: threading.Event) -> int:
    """Reduces until the job has ended, which must be said in one of two ways; counts the sums."""
    sums = 0
    while True:
        try:
            size = hvd.size()
            name = f"thread{thread}.{sums}"
            if thread % 2:
                result = hvd.allreduce(np.ones(5), name, hvd.Sum)
            else:
                result = hvd.synchronize(hvd.allreduce_async(np.ones(5), name, hvd.Sum))
        except (ValueError, hvd.HorovodInternalError) as error:
            if not str(error).startswith((NOT_INITIALIZED, SHUT_DOWN)):
                raise
            in_use.set()  # by the other rank, which has been faster
            return sums
        assert result is not None
        assert result.tolist() == [size] * 5
        sums += 1
        in_use.set()


def run_job() -> int:
    """One life of a job: joined by three threads at once, and ended by two while four use it."""
    at_once(hvd.init, hvd.init, hvd.init)
    assert hvd.is_initialized()
    hvd.barrier()
    sums: list[int] = []

    in_use = threading.Event()

    def use(thread: int) -> None:
        sums.append(use_until_the_end(thread, in_use))

    def end() -> None:
        in_use.wait(DEADLINE)
        hvd.shutdown()

    at_once(*(lambda thread=thread: use(thread) for thread in range(4)), end, end)
    hvd.shutdown()
    assert not hvd.is_initialized()
    return sum(sums)


def keep_many_handles() -> None:
    """A job of one rank, whose operations are over at once, so that threads meet in the library."""

    def use(thread: int) -> None:
        for i in range(1000):
            handle = hvd.allreduce_async(np.ones(1), f"thread{thread}.{i}", hvd.Sum)
            assert hvd.synchronize(handle).tolist() == [1]

    hvd.init()
    at_once(*(lambda thread=thread: use(thread) for thread in range(4)))
    hvd.shutdown()


def start_and_stop_anyhow() -> int:
    """A job of one rank, started and ended by threads that know nothing of each other."""
    sums: list[int] = []
    ended = threading.Event()

    def start() -> None:
        while not ended.is_set():
            hvd.init()
        hvd.shutdown()  # nobody else ends what this has started last

    def stop() -> None:
        for _ in range(ROUNDS):
            hvd.init()
            hvd.shutdown()

    def use(thread: int) -> None:
        while not ended.is_set():
            sums.append(use_until_the_end(thread, threading.Event()))

    def end() -> None:
        at_once(stop, stop)
        ended.set()

    at_once(start, end, lambda: use(0), lambda: use(1))
    hvd.shutdown()
    return sum(sums)


hvd.init()
alone = hvd.size() == 1
hvd.shutdown()
if alone:
    keep_many_handles()
total = start_and_stop_anyhow() if alone else sum(run_job() for _ in range(ROUNDS))
print(total)
