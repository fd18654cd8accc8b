"""The programs of a build, which end with all that they started when the build is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from variantwheel.errors import BuildFailedError

_ENDINGS = ((signal.SIGINT, 3.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 1.0))
"""Each with the seconds that it is waited for: on the first one, programs remove what they made.

The second is for those that were started where the first is ignored, as in the background."""
_LEFT_BEHIND_S = 1.0
_PAUSE_S = 0.01


class BuildPrograms:
    """Runs programs, each in a session of its own, and ends them. Safe to use from threads."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        command: Sequence[str],
        log: int,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> int:
        """Run a program to its end; whatever interrupts this ends the program first.

        Args:
            command: The program and its arguments.
            log: The descriptor of the file that takes what it prints.
            environment: All of its variables; none for those of this process.
            folder: Where it runs; none for this process's folder.

        Returns:
            Its exit code.

        Raises:
            BuildFailedError: `stop` has been called.
        """
        with self._lock:
            if self._stopped:
                raise BuildFailedError("the build was interrupted")
            program = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(program)
        try:
            return program.wait()
        except BaseException:
            _end([program])
            raise
        finally:
            with self._lock:
                self._running.discard(program)

    def stop(self) -> None:
        """End what is running, and start nothing any more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        _end(running)


def _end(programs: Sequence[subprocess.Popen[bytes]]) -> None:
    """End programs and, being in groups that are named after them, the compilers they started."""
    left = list(programs)
    for number, seconds in _ENDINGS:
        _signal_groups(left, number)
        deadline = time.monotonic() + seconds
        for program in left:
            with suppress(subprocess.TimeoutExpired):
                program.wait(max(0.0, deadline - time.monotonic()))
        left = [program for program in left if program.poll() is None]
        if not left:
            break
    # What a program leaves behind is still removing its temporary files, or heard nothing.
    deadline = time.monotonic() + _LEFT_BEHIND_S
    while _signal_groups(programs, 0) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    _signal_groups(programs, signal.SIGKILL)


def _signal_groups(programs: Iterable[subprocess.Popen[bytes]], number: int) -> bool:
    """Send a signal, or none for 0; tell whether anybody was there to get it."""
    there = False
    for program in programs:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, number)
            there = True
    return there
