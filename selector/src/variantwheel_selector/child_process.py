"""Runs a program that may hang for ever, and leaves it behind when it does.

A driver in trouble keeps a process in the kernel where no signal reaches it. Whoever waits for
such a process hangs as well, and `subprocess.run(timeout=...)` does wait after it has killed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import contextmanager

from variantwheel_selector.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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
    command: Sequence[str], environment: Mapping[str, str], deadline: float, limit: int
) -> ChildEnd:
    """Run a program in a session of its own and return what it printed.

    Args:
        command: The program and its arguments.
        environment: All of its environment variables.
        deadline: Until when it may run, in seconds of `time.monotonic`.
        limit: How many bytes it may print.
    """
    if time.monotonic() >= deadline:
        return ChildEnd(b"", "was not started, because no time was left")
    try:
        with _output_file() as output:
            # `with` would wait for the child, which is the one thing that must not happen.
            process = subprocess.Popen(  # noqa: S603, RUF100
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
            )
            trouble = _watch(process, output.fileno(), deadline, limit)
            output.seek(0)
            return ChildEnd(output.read(limit), trouble)
    except (OSError, ValueError) as error:
        return ChildEnd(b"", f"could not be run: {error}")


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


def _watch(process: subprocess.Popen[bytes], output: int, deadline: float, limit: int) -> str:
    pause = _FIRST_PAUSE_S
    with _ending(process.pid) as ended:
        while process.poll() is None:
            if os.fstat(output).st_size > limit:
                _abandon(process)
                return f"printed more than {limit} bytes"
            left = deadline - time.monotonic()
            if left <= 0:
                _abandon(process)
                return "did not end in time and was left behind"
            if ended is None:
                time.sleep(min(pause, left))
            else:
                ended.poll(1000 * min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
    if os.fstat(output).st_size > limit:
        return f"printed more than {limit} bytes"
    if process.returncode < 0:
        return f"was ended by signal {-process.returncode}"
    return f"ended with exit status {process.returncode}" if process.returncode else ""


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill the child's group without relying on it to end."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    # Most children end now and are reaped; one that cannot is not waited for.
    until = time.monotonic() + _GRACE_S
    while process.poll() is None and time.monotonic() < until:
        time.sleep(_FIRST_PAUSE_S)
    if process.returncode is None:
        # So that Popen neither warns about the child nor asks for it again.
        process.returncode = -signal.SIGKILL
