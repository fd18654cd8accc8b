"""Waiting: a thread that waits for other ranks sleeps, and lets the others of its process work."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import horovod.array as hvd_array
import horovod.torch as hvd
from horovod._collectives import COLLECTIVES
from horovod._operations import Operations

LOOKS = 20_000  # until a thread that does not fall asleep is given up: a minute or more
IN_A_ROW = 20


def is_asleep(thread: int) -> bool:
    stat = Path(f"/proc/self/task/{thread}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"


def falls_asleep(thread: int) -> bool:
    """Whether a thread is found asleep many times in a row.

    In between it could have the interpreter's lock, so that this is not what it sleeps for.
    """
    row = 0
    for _ in range(LOOKS):
        row = row + 1 if is_asleep(thread) else 0
        if row == IN_A_ROW:
            return True
        time.sleep(0.001)
    return False


def sleeps_while_it_waits(wait: Callable[[], object]) -> bool:
    """Rank 0 waits alone, until another thread of it has found the waiting one asleep.

    Were the interpreter's lock held meanwhile, the other thread would not run, and nothing end.
    """
    asleep: list[bool] = []

    def call_the_others(waiting: int) -> None:
        asleep.append(falls_asleep(waiting))
        hvd_array.broadcast(np.ones(1), 0, name="go")

    if hvd.rank() == 0:
        caller = threading.Thread(target=call_the_others, args=(threading.get_native_id(),))
        caller.start()
        wait()
        caller.join()
        return asleep == [True]
    hvd_array.broadcast(np.ones(1), 0, name="go")
    wait()
    return True


def check_a_waiting_thread_sleeps_and_lets_others_work() -> None:
    own, array = torch.ones(hvd.size(), 2), np.ones((hvd.size(), 2))
    waits: list[Callable[[], object]] = [
        lambda: hvd.allreduce(own, name="waited.for"),
        lambda: hvd.allreduce_(own),
        lambda: hvd.allgather(own),
        lambda: hvd.broadcast(own, 1),
        lambda: hvd.broadcast_(own, 1),
        lambda: hvd.alltoall(own),
        lambda: hvd.reducescatter(own),
        hvd.barrier,
        lambda: hvd.synchronize(hvd.allreduce_async(own)),
        lambda: hvd.grouped_allreduce([own, own]),
        lambda: hvd.allreduce(own.to(torch.bfloat16).t()),
        lambda: hvd_array.allreduce(array),
        lambda: hvd_array.synchronize(hvd_array.allgather_async(array)),
    ]
    for number, wait in enumerate(waits):
        assert sleeps_while_it_waits(wait), number


def check_a_join_that_was_interrupted_goes_on() -> None:
    # As by a signal's handler that raises; the next call waits for it.
    if hvd.rank() == 0:
        interrupt = mock.patch.object(Operations, "synchronize", side_effect=KeyboardInterrupt)
        with interrupt, pytest.raises(KeyboardInterrupt):
            hvd.join()
    for _ in range(2):
        hvd.join()
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2


def check_what_is_on_its_way_keeps_its_memory_when_a_signals_handler_raises() -> None:
    """Python runs handlers as soon as the bindings have returned."""
    tensor = torch.arange(8.0).reshape(2, 4).t()  # not contiguous, and so copied
    start = Operations._enqueue

    def interrupted(*given: Any) -> None:
        start(*given)
        raise KeyboardInterrupt

    kept = len(COLLECTIVES._pending)
    with mock.patch.object(Operations, "_enqueue", interrupted), pytest.raises(KeyboardInterrupt):
        hvd.allreduce_async(tensor, name="interrupted", op=hvd.Sum)
    assert len(COLLECTIVES._pending) == kept + 1
    hvd.barrier()  # behind it: all ranks have reduced what was sent
    # One that is refused is not kept.
    with (
        mock.patch.object(Operations, "_full_name", side_effect=ValueError),
        pytest.raises(ValueError),
    ):
        hvd.allreduce_async(tensor, name="refused", op=hvd.Sum)
    assert len(COLLECTIVES._pending) == kept + 1
