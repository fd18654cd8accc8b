"""How processes end that this one has started; the system tells it once, or to nobody."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

_LOOK_SECONDS = 0.01  # between looks whether a process has ended, where that must not take long
NOT_TOLD = (
    "nobody knows how it has ended: signals of children are ignored here (SIGCHLD), or another part"
    " of this program has waited for it"
)


class EndNotToldError(RuntimeError):
    """A process has ended, and the system does not tell how."""


def await_end(process: "subprocess.Popen[bytes]", seconds: float | None = None) -> int:
    """Waits for the end of a process, whose number stays its own until `process.wait()`.

    That alone makes a code of 0 of an end that is not told.

    Args:
        process: a child.
        seconds: to wait; None for as long as it takes.

    Returns:
        What `process.wait()` is going to return.

    Raises:
        EndNotToldError: it has ended in a way that is not told.
        TimeoutExpired: it still runs.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    options = os.WEXITED | os.WNOWAIT | (0 if deadline is None else os.WNOHANG)
    while True:
        try:
            end = os.waitid(os.P_PID, process.pid, options)
        except ChildProcessError:
            raise EndNotToldError(NOT_TOLD) from None
        except OSError:  # a filter of system calls refuses it; the number may be another's then
            return process.wait(seconds)
        if end is not None:
            return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        if deadline is not None and time.monotonic() >= deadline:
            raise subprocess.TimeoutExpired(process.args, seconds or 0.0)
        time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def ends_are_told() -> Iterator[None]:
    """Has the system tell how children end, while the block runs; and theirs, which inherit that.

    Parents hand ignored signals on: shells with `trap '' CHLD`, and some schedulers.

    Raises:
        RuntimeError: they are ignored, which the main thread alone can change.
    """
    if signal.getsignal(signal.SIGCHLD) is not signal.SIG_IGN:
        yield
        return
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "signals of children are ignored in this process (SIGCHLD), so that nobody would know"
            " how ranks end; have the main thread call"
            " signal.signal(signal.SIGCHLD, signal.SIG_DFL) first"
        )
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
