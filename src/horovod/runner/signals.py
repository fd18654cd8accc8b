"""The signals that end a launcher, as events of its queue."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from horovod.runner.streams import READERS
from horovod.runner.threads import start_thread

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_END = b"\0"  # no signal's number


@dataclass(frozen=True)
class Signalled:
    """Somebody wants the launcher to end."""

    number: int


@contextlib.contextmanager
def signals_as_events(put: Callable[[Signalled], None]) -> Iterator[None]:
    """Turns the signals that end a launcher into events while the block runs.

    A handler in Python runs when the main thread next executes Python's code, and nothing wakes one
    that is about to wait, or whose signal went to another thread, as the second of two does. So the
    numbers come through a socket (`signal.set_wakeup_fd`), whichever thread is interrupted.

    Outside the main thread, where Python has no signals, and for signals that are ignored, as under
    nohup, nothing changes.

    From the first signal on nobody waits for long for who reads this process's output: a pager that
    pauses would keep it from ending.

    Args:
        put: called with each signal, by a thread of its own.

    Raises:
        ThreadError: there is no room for that thread.
    """
    READERS.take_time()
    in_main = threading.current_thread() is threading.main_thread()
    numbers = [
        number
        for number in (SIGNALS if in_main else ())
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    if not numbers:
        yield
        return
    ours, theirs = socket.socketpair()
    with ours, theirs, contextlib.ExitStack() as stack:
        theirs.settimeout(0.0)
        outer = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        stack.callback(signal.set_wakeup_fd, outer)
        reader = start_thread(
            _read, "a thread that waits for signals", ours, numbers, put, outer, daemon=True
        )
        stack.callback(reader.join)
        stack.callback(theirs.send, _END)
        for number in numbers:
            stack.callback(signal.signal, number, signal.signal(number, lambda *_: None))
        yield


def _read(
    ours: socket.socket, numbers: Collection[int], put: Callable[[Signalled], None], outer: int
) -> None:
    """Reads to the end; `outer` is told of other signals, as it was before (-1: nobody)."""
    while (read := ours.recv(1)) != _END:
        if read[0] in numbers:
            READERS.hurry()
            put(Signalled(read[0]))
        elif outer >= 0:
            with contextlib.suppress(OSError):
                os.write(outer, read)
