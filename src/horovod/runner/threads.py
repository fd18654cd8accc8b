"""Threads and processes that cannot be started, and what the user can do about it."""

import errno
import threading
from collections.abc import Callable
from typing import Any

# Python does not pass on the system's reason.
_NO_ROOM = (
    "there is no room for another process or thread here; raise the limit that is met: `ulimit -u`,"
    " the pids limit of the cgroup (pids.max) or, of memory, `ulimit -v`. If none is met, a"
    " container's seccomp profile may refuse clone3, as Docker's before 20.10.10 does to glibc 2.34"
    " and newer: update Docker"
)
_ENDING = (  # since CPython 3.12
    "Python is ending and starts no more threads: have the main thread join the one that calls"
    " horovod.run"
)


class ThreadError(RuntimeError):
    """A thread cannot be started; the message says which, and what to do about it."""


def why_not_started(error: OSError) -> str:
    """Why the system has not started a process, in words for the user."""
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return _NO_ROOM
    return error.strerror or str(error)


def start_thread(
    work: Callable[..., None], what: str, *arguments: Any, daemon: bool = False
) -> threading.Thread:
    """Starts a thread.

    Args:
        work: what it does.
        what: names it in the error message.
        arguments: of the work.
        daemon: whether Python may end before it.

    Raises:
        ThreadError: there is no room for it, or Python is ending.
    """
    thread = threading.Thread(target=work, args=arguments, daemon=daemon)
    try:
        thread.start()
    except RuntimeError as error:
        reason = _ENDING if "shutdown" in str(error) else _NO_ROOM
        raise ThreadError(f"cannot start {what}: {reason}") from None
    return thread
