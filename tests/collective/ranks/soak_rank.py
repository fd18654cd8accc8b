"""One rank of a soak: random operations after a plan that follows from a seed, and their results.

Usage: soak_rank.py SEED FILE; goes on until there is such a file; prints `under way`, then
`done`, `failed: …` or what was wrong.
Between rounds the job is left and joined again; memory mappings apart, nothing may be left of it.
"""
# ruff: noqa: T201 - whoever runs it reads what is printed

import contextlib
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import horovod.array as hvd

ROUND = 25  # operations of one job
OPERATIONS = (
    "allreduce", "shared", "group", "allgather", "broadcast", "alltoall", "scatter", "barrier"
)  # fmt: skip
LENGTHS = (0, 1, 3, 100, 1_000, 5_000, 60_000, 150_000, 700_000)
TYPES = (np.float16, np.float32, np.float64, np.int16, np.int32, np.int64, np.uint8)


def operand(rank: int, length: int, kind: type, salt: int) -> Any:
    """What a rank brings: small whole numbers, so that sums are exact in every order."""
    return ((np.arange(length) * 7 + rank * 3 + salt) % 5).astype(kind)


class WrongResultError(Exception):
    """A result is not what it should be."""


def expect(what: str, actual: Any, expected: Any) -> None:
    if actual.shape != expected.shape or not np.array_equal(actual, expected):
        raise WrongResultError(what)


class Plan:
    """Draws the same operations on all ranks."""

    def __init__(self, seed: int, sets: list[hvd.ProcessSet]) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a reproducible plan
        self._sets = sets
        self._number = 0

    def next(self) -> Callable[[], None]:
        """Starts one operation on the ranks that take part; the rest is to be called later."""
        draw = self._random
        self._number += 1
        chosen = draw.choice(self._sets)
        kind, length, salt = draw.choice(TYPES), draw.choice(LENGTHS), draw.randrange(5)
        op = draw.choice(OPERATIONS)
        blocking = draw.random() < 0.4
        members = chosen.ranks or list(range(hvd.size()))
        root = draw.choice(members)
        if hvd.rank() not in members:
            return lambda: None
        place, name = members.index(hvd.rank()), f"{op}.{self._number}"
        if op == "barrier":
            hvd.barrier(process_set=chosen)
            return lambda: None

        def bring(rank: int) -> Any:
            return operand(rank, length, kind, salt)

        own = bring(hvd.rank())
        total = sum((bring(rank) for rank in members), np.zeros(length, kind))
        if op == "allreduce":
            if blocking:
                result = hvd.allreduce(own, op=hvd.Sum, process_set=chosen)
                return lambda: expect(name, result, total)
            handle = hvd.allreduce_async(own, op=hvd.Sum, name=name, process_set=chosen)
            return lambda: expect(name, hvd.synchronize(handle), total)
        if op == "shared":
            memory = hvd.shared_empty(length, kind, process_set=chosen)
            memory[:] = own
            if blocking:
                hvd.allreduce_(memory, op=hvd.Sum, process_set=chosen)
                return lambda: expect(name, memory, total)
            handle = hvd.allreduce_async_(memory, op=hvd.Sum, name=name, process_set=chosen)
            return lambda: expect(name, hvd.synchronize(handle), total)
        if op == "group":
            three = hvd.grouped_allreduce_async(
                [own] * 3, op=hvd.Max, name=name, process_set=chosen
            )
            largest = np.max([bring(rank) for rank in members], axis=0)
            return lambda: expect(name, np.array(hvd.synchronize(three)), np.array([largest] * 3))
        if op == "allgather":
            all_of_them = np.concatenate([bring(rank)[: length // (rank + 1)] for rank in members])
            mine = own[: length // (hvd.rank() + 1)]
            if blocking:
                gathered = hvd.allgather(mine, process_set=chosen)
                return lambda: expect(name, gathered, all_of_them)
            handle = hvd.allgather_async(mine, name=name, process_set=chosen)
            return lambda: expect(name, hvd.synchronize(handle), all_of_them)
        if op == "broadcast":
            if blocking:
                sent = hvd.broadcast(own, root, process_set=chosen)
                return lambda: expect(name, sent, bring(root))
            handle = hvd.broadcast_async(own, root, name=name, process_set=chosen)
            return lambda: expect(name, hvd.synchronize(handle), bring(root))
        if op == "scatter":
            part = np.array_split(total, len(members))[place]
            if blocking:
                scattered = hvd.reducescatter(own, op=hvd.Sum, process_set=chosen)
                return lambda: expect(name, scattered, part)
            handle = hvd.reducescatter_async(own, op=hvd.Sum, name=name, process_set=chosen)
            return lambda: expect(name, hvd.synchronize(handle), part)
        splits = [length // len(members)] * len(members)
        each = splits[0]
        received = np.concatenate([bring(r)[place * each : (place + 1) * each] for r in members])
        handle = hvd.alltoall_async(own[: sum(splits)], splits, name=name, process_set=chosen)
        return lambda: expect(name, hvd.synchronize(handle)[0], received)


def leftovers() -> dict[str, int]:
    """What a job that has ended must not leave behind in this process."""
    gc.collect()  # an exception's frames refer to each other, and to the job that failed
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "shared memory": Path("/proc/self/maps").read_text().count("memfd:horovod"),
    }


def more_than(before: dict[str, int]) -> dict[str, int]:
    """What is left beyond that, if not for a moment only, as the entries of joined threads are."""
    deadline = time.monotonic() + 10
    while True:
        after = leftovers()
        more = {what: count for what, count in after.items() if count > before[what]}
        if not more or time.monotonic() > deadline:
            return more
        time.sleep(0.01)


def join_unevenly(draw: random.Random) -> None:
    """In some rounds, ranks run out of work one after the other; they bring zeros from then on."""
    if draw.random() < 0.5:
        return
    works = [draw.randrange(4) for _ in range(hvd.size())]
    for number in range(works[hvd.rank()]):
        left = [rank for rank, work in enumerate(works) if work > number]
        total = hvd.allreduce(np.full(1_000, hvd.rank() + 1), op=hvd.Sum, name=f"uneven.{number}")
        expect(f"uneven.{number}", total, np.full(1_000, sum(rank + 1 for rank in left)))
    hvd.join()


def run_round(seed: int) -> bool:
    """One job; whether all ranks want another one."""
    hvd.init()
    everyone = list(range(hvd.size()))
    sets: list[hvd.ProcessSet] = [hvd.global_process_set, hvd.global_process_set]
    if hvd.size() > 1:
        sets += [hvd.add_process_set(everyone[:-1]), hvd.add_process_set(everyone[1:])]
    plan = Plan(seed, sets)
    order = random.Random(seed * 31 + hvd.rank())  # noqa: S311 - a reproducible plan
    pending: list[Callable[[], None]] = []
    os.pwrite(STATE, b"1", 0)
    try:
        for _ in range(ROUND):
            pending.append(plan.next())
            if len(pending) > 8:
                pending.pop(order.randrange(len(pending)))()
        order.shuffle(pending)
        while pending:
            pending.pop()()
    except hvd.HorovodInternalError:
        for finish in pending:  # a handle holds its job until somebody asks for it
            with contextlib.suppress(hvd.HorovodInternalError):
                finish()
        raise
    join_unevenly(random.Random(seed))  # noqa: S311 - a reproducible plan
    # Without its part of the last operation the others cannot go on to the next job.
    os.pwrite(STATE, b"0", 0)
    late = np.array([END.exists()], np.int32)
    return not bool(hvd.allreduce(late, op=hvd.Max)[0])


def main() -> int:
    seed = int(sys.argv[1])
    before = leftovers()
    for number in range(1_000_000):
        try:
            more = run_round(seed * 1000 + number)
        except hvd.HorovodInternalError as error:
            print(f"failed: {error}", flush=True)
            more = False
        except WrongResultError as error:
            print(f"wrong: {error} of round {number}", flush=True)
            os._exit(3)
        hvd.shutdown()
        if number == 0:
            print("under way", flush=True)
            before = leftovers()  # what is made once and kept
        if left := more_than(before):
            print(f"left behind after round {number}: {left}, before {before}", flush=True)
            return 3
        if not more:
            break
    print("done", flush=True)
    return 0


signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
END = Path(sys.argv[2])
# For the driver: 1 in the middle of a job.
STATE = os.open(f"{END}.{os.environ['HOROVOD_RANK']}", os.O_WRONLY | os.O_CREAT, 0o600)
sys.exit(main())
