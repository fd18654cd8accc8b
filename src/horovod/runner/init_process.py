"""The launcher as a container's first process, which gets the children of all that have ended.

`docker run IMAGE horovodrun ...` makes it process 1, and whatever ranks leave running is a child of
process 1 from then on. Nobody else can wait for these, so that each would stay a zombie and keep
its number until the container ends, as each worker of a data loader whose rank was killed does.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from horovod.runner.signals import SIGNALS

_PASSED_ON = (*SIGNALS, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_BY_KERNEL = 0x80  # SI_KERNEL, asm-generic/siginfo.h: of a terminal
# What a terminal's keys send to all of its processes; that it has hung up, its session's leader
# alone is told.
_OF_KEYS = (signal.SIGINT, signal.SIGQUIT)


def below_init(work: Callable[[], int]) -> int:
    """Does some work in a child, where this process is a container's first one, else right here.

    This one waits for all children then, passes the signals on that come for it, and has no other
    thread.

    Args:
        work: returns an exit code.

    Returns:
        That of the work: in the child its own; here 128 + n where signal n has ended the child.
    """
    if os.getpid() != 1:
        return work()
    heard = {signal.SIGCHLD, *_PASSED_ON}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    sys.stdout.flush()
    sys.stderr.flush()
    child = -1
    try:
        with contextlib.suppress(OSError):  # no room for it: then as any other program does
            child = os.fork()
    finally:
        if child <= 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if child <= 0:
        return work()
    while True:
        event = signal.sigwaitinfo(heard)
        if event.si_signo != signal.SIGCHLD:
            if event.si_code != _BY_KERNEL or event.si_signo not in _OF_KEYS:
                os.kill(child, event.si_signo)
        elif (status := _reap(child)) is not None:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _reap(awaited: int) -> int | None:
    """Waits for all children that have ended; returns the status of one if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == awaited:
            found = status
