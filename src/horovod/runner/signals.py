"""The signals that end a launcher, as events of its queue."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from horovod.runner.streams import READERS
from horovod.runner.threads import start_thread

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# From the first SIGINT or SIGTERM until another one says that waiting takes too long. A person
# needs that long to press Ctrl-C anew; what comes sooner is the same wish once more, as of a
# terminal and of `timeout`, or of a scheduler that tells each process of a job.
AGAIN_SECONDS = 1.0
_URGENT = (signal.SIGINT, signal.SIGTERM)
_END = b"\0"  # no signal's number


@dataclass(frozen=True)
class Signalled:
    """Somebody wants the launcher to end.

    Attributes:
        at_once: has asked before, and does not wait any longer.
    """

    number: int
    at_once: bool = False


@contextlib.contextmanager
def signals_as_events(put: Callable[[Signalled], None]) -> Iterator[None]:
    """Turns the signals that end a launcher into events while the block runs.

    A handler in Python runs when the main thread next executes Python's code, and nothing wakes one
    that is about to wait, or whose signal went to another thread, as the second of two does. So the
    numbers come through a socket (`signal.set_wakeup_fd`), whichever thread is interrupted.

    Outside the main thread, where Python has no signals, and for signals that are ignored, as under
    nohup, or that a program which embeds Python handles itself, nothing changes.

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
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
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

        def end_reader() -> None:
            theirs.send(_END)
            reader.join()

        stack.callback(end_reader)  # in one go: a signal between two would have the one alone
        for number in numbers:
            stack.callback(signal.signal, number, signal.signal(number, lambda *_: None))
        yield


def hand_on(number: int) -> None:
    """Has this process do with a signal that has been an event what it does with others.

    Args:
        number: of the signal. Where nothing handles it, nothing happens, as Python is to go on and
            say why a job has ended.
    """
    ignoring = (signal.SIG_DFL, signal.SIG_IGN)
    if number in SIGNALS and signal.getsignal(number) not in ignoring:
        signal.raise_signal(number)


def _read(
    ours: socket.socket, numbers: Collection[int], put: Callable[[Signalled], None], outer: int
) -> None:
    """Reads to the end; `outer` is told of other signals, as it was before (-1: nobody)."""
    since: float | None = None  # when the first one came that another may follow
    while (read := ours.recv(1)) != _END:
        if read[0] in numbers:
            at_once = False
            if read[0] in _URGENT:
                now = time.monotonic()
                at_once = since is not None and now - since >= AGAIN_SECONDS
                since = now if since is None else since
            READERS.hurry(at_once=at_once)
            put(Signalled(read[0], at_once))
        elif outer >= 0:
            with contextlib.suppress(OSError):
                os.write(outer, read)
