"""Threads that start and await operations on tensors while the job ends and begins; prints sums."""
# ruff: noqa: T201 - the test reads what is printed

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

import horovod.torch as hvd

JOBS = 40
DEADLINE = 120.0
THREADS = 3
ENDED = ("Horovod has not been initialized; use hvd.init().", "Horovod has been shut down.")


def use_until_all_have_ended(
    thread: int, summed: threading.Event, ended: threading.Event, at_work: threading.Lock
) -> int:
    """Reduces tensors of a length that no other thread's have; each is its own sum, or an error."""
    mine = torch.full((1000 * (thread + 1),), thread + 1.0)
    sums = 0
    while not ended.is_set():
        try:
            with at_work:
                handle = hvd.allreduce_async(mine, name=f"thread{thread}.{sums}", op=hvd.Sum)
                result = hvd.synchronize(handle)
        except (ValueError, hvd.HorovodInternalError) as error:
            if not str(error).startswith(ENDED):
                raise
            continue
        assert result.shape == mine.shape
        assert set(result.tolist()) == {thread + 1.0}
        sums += 1
        summed.set()
    return sums


def begin_and_end(
    summed: threading.Event, ended: threading.Event, at_work: list[threading.Lock]
) -> None:
    """Lives of a job of one rank, which threads learn of when they are in the middle of something.

    The first one lasts until a thread has a sum. A handle is known until the end of the job after
    its own.
    """
    try:
        for job in range(JOBS):
            hvd.init()
            handle = hvd.allreduce_async(torch.ones(3), op=hvd.Sum)
            assert hvd.synchronize(handle).tolist() == [1.0] * 3
            assert summed.wait(DEADLINE)
            hvd.shutdown()
            for lock in at_work if job % 2 else ():
                with lock:
                    pass
    finally:
        ended.set()


def main() -> None:
    """Both at once."""
    summed, ended = threading.Event(), threading.Event()
    at_work = [threading.Lock() for _ in range(THREADS)]
    with ThreadPoolExecutor(THREADS + 1) as pool:
        users = [
            pool.submit(use_until_all_have_ended, each, summed, ended, lock)
            for each, lock in enumerate(at_work)
        ]
        pool.submit(begin_and_end, summed, ended, at_work).result(DEADLINE)
        print(sum(user.result(DEADLINE) for user in users))


main()
