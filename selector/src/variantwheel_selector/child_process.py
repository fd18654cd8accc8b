"""Runs a program that may hang for ever, and leaves it behind when it does.

A driver in trouble keeps a process in the kernel where no signal reaches it. Whoever waits for
such a process hangs as well, and `subprocess.run(timeout=...)` does wait after it has killed.
Nor is `subprocess` imported for one call: that takes as long as Python takes to start.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import contextmanager

from variantwheel_selector.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.02
_GRACE_S = 0.2


@record
class ChildEnd:
    """How a program ended.

    Attributes:
        output: The first bytes of its standard output.
        trouble: Why the output may be incomplete, in words; empty if the program ended well.
    """

    output: bytes
    trouble: str


def run_child(
    command: list[str], environment: Mapping[str, str], deadline: float, limit: int
) -> ChildEnd:
    """Run a program in a session, or at least a group, of its own and return what it printed.

    Args:
        command: The program's path and its arguments.
        environment: All of its environment variables.
        deadline: Until when it may run, in seconds of `time.monotonic`.
        limit: How many bytes it may print.
    """
    if time.monotonic() >= deadline:
        return ChildEnd(b"", "was not started, because no time was left")
    try:
        with _output_file() as output:
            child = _start(command, environment, output.fileno())
            trouble = _watch(child, output.fileno(), deadline, limit)
            output.seek(0)
            return ChildEnd(output.read(limit), trouble)
    except (OSError, ValueError) as error:
        return ChildEnd(b"", f"could not be run: {error}")


def _start(command: list[str], environment: Mapping[str, str], output: int) -> int:
    actions: list[tuple[int, int, int] | tuple[int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_DUP2, output, 1),  # first: it may be 0 or 2
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        # Left behind, it must not hold a pipe open to whose end somebody reads.
        *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inherited()),
    ]
    try:
        return os.posix_spawn(command[0], command, environment, file_actions=actions, setsid=True)
    except NotImplementedError:  # Python was built for a C library that cannot
        return os.posix_spawn(command[0], command, environment, file_actions=actions, setpgroup=0)


def _inherited() -> list[int]:
    """Return the descriptors beside the standard ones that a new process would be given."""
    try:
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - cheaper
    except OSError:
        return []
    return [descriptor for descriptor in descriptors if descriptor > 2 and _inherits(descriptor)]


def _inherits(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # closed by now, as the one that listed them
        return False


def _output_file() -> IO[bytes]:
    """Return a file without a name, in memory where the system has that."""
    try:
        return os.fdopen(os.memfd_create("variantwheel-output"), "w+b")
    except (AttributeError, OSError):
        from tempfile import TemporaryFile  # noqa: PLC0415 - takes longer than the rest of this

        return TemporaryFile()


@contextmanager
def _ending(pid: int) -> Iterator[select.poll | None]:
    """Give what can be polled until a process has ended; None before Linux 5.3, and elsewhere."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        yield ended
    finally:
        os.close(descriptor)


def _watch(child: int, output: int, deadline: float, limit: int) -> str:
    pause = _FIRST_PAUSE_S
    with _ending(child) as ended:
        while (status := _exit_status(child)) is None:
            if os.fstat(output).st_size > limit:
                _abandon(child)
                return f"printed more than {limit} bytes"
            left = deadline - time.monotonic()
            if left <= 0:
                _abandon(child)
                return "did not end in time and was left behind"
            if ended is None:
                time.sleep(min(pause, left))
            else:
                ended.poll(1000 * min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
    if os.fstat(output).st_size > limit:
        return f"printed more than {limit} bytes"
    if status < 0:
        return f"was ended by signal {-status}"
    return f"ended with exit status {status}" if status else ""


def _exit_status(child: int) -> int | None:
    """Return how a child ended, as a negative number if by a signal; None while it runs."""
    try:
        ended, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:  # this process ignores its children, and cannot know
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


def _abandon(child: int) -> None:
    """Kill the child's group without relying on it to end."""
    from signal import SIGKILL  # noqa: PLC0415 - rarely needed

    for kill in (os.killpg, os.kill):
        try:
            kill(child, SIGKILL)
            break
        except OSError:
            continue
    # Most children end now and are reaped; one that cannot is not waited for.
    until = time.monotonic() + _GRACE_S
    while _exit_status(child) is None and time.monotonic() < until:
        time.sleep(_FIRST_PAUSE_S)
