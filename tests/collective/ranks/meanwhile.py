"""What happens on rank 0 while it waits for the others: other threads' doings, and signals."""

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horovod.array as hvd_array
import horovod.torch as hvd
from collective.ranks.waiting_checks import falls_asleep
from horovod._loader import _bindings
from horovod._session import SESSION


class Interrupt(Exception):  # noqa: N818 - no error
    """Raised by a signal's handler."""


def _interrupt(*_: object) -> None:
    raise Interrupt


@contextlib.contextmanager
def raising_handler() -> Iterator[None]:
    """Within it, `interrupt_the_main_thread` has that raise Interrupt."""
    before = signal.signal(signal.SIGUSR1, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def interrupt_the_main_thread() -> None:
    """Its handler raises as soon as the bindings let it."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def let_the_others_come(*, number: float = 0.0) -> float:
    """Rank 0 lets the others go on, which are in this function; all return its number."""
    return float(hvd_array.broadcast(np.array([number]), 0, name="go")[0])


def next_number(kind: str) -> int:
    """What the next operation without a name would have."""
    runtime, code = SESSION.member.runtime, _bindings.KINDS[kind]
    number = runtime.next_unnamed(code, 0)
    runtime.take_back_unnamed(code, 0, number)
    return number


def _new_file() -> str:
    file, path = tempfile.mkstemp()
    os.close(file)
    return path


def while_it_waits(wait: Callable[[], Any], act: Callable[[], object]) -> Any:
    """Runs `wait` on all ranks, on rank 0 first; another thread of that acts before they come.

    Had that thread an operation of its own, the ranks would not meet in the one that is waited for:
    so the others come when a file has gone, which stays so, whatever ends the wait on rank 0.

    Returns:
        What `wait` has returned.
    """
    stop = Path(hvd.broadcast_object(_new_file() if hvd_array.rank() == 0 else "", 0))
    if hvd_array.rank() != 0:
        while stop.exists():
            time.sleep(0.0005)
        return wait()

    ended = threading.Event()

    def act_inside() -> None:
        try:
            while not (_bindings.threads_inside() or ended.is_set()):
                time.sleep(0)
            act()
        finally:
            stop.unlink()

    thread = threading.Thread(target=act_inside)
    thread.start()
    try:
        return wait()
    finally:
        ended.set()
        thread.join()


def interrupted_as_the_others_come(wait: Callable[[], Any]) -> Any:
    """Waits on all ranks; on rank 0 a handler raises just before what it waits for is done.

    Returns:
        What `wait` has returned, on rank 0 when it is called again.
    """
    if hvd_array.rank() != 0:
        let_the_others_come()
        return wait()

    def interrupt(waiting: int) -> None:
        falls_asleep(waiting)
        interrupt_the_main_thread()
        let_the_others_come()

    thread = threading.Thread(target=interrupt, args=(threading.get_native_id(),))
    with raising_handler():
        thread.start()
        with pytest.raises(Interrupt):
            wait()
        thread.join()
    return wait()


def interrupted_before_the_others_come(call: Callable[[], Any]) -> None:
    """Calls on rank 0 alone, where a handler raises while it looks for the others."""

    def interrupt() -> None:
        while not _bindings.threads_inside():
            time.sleep(0)
        interrupt_the_main_thread()

    thread = threading.Thread(target=interrupt)
    with raising_handler():
        thread.start()
        with pytest.raises(Interrupt):
            call()
        thread.join()
