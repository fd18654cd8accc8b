"""Workers on this host: each leads a process group of its own, which ends with it."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from horovod.runner.output import STDERR, STDOUT

TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL
_LOOK_SECONDS = 0.02  # between looks at a group that has been asked to end
_DRAIN_SECONDS = 5.0  # for output of a worker that has ended, should a stranger hold the pipe open
_CHUNK = 1 << 16
CANNOT_START = 127  # exit code, as shells have it


@dataclass(frozen=True)
class Command:
    """What a worker runs.

    Attributes:
        rank: the worker's number in the job.
        environment: all of it.
        directory: where it runs.
    """

    rank: int
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path


def exit_code(status: int) -> int:
    """Turns Popen's return code into a shell's: 128 + n for a process that signal n ended."""
    return 128 - status if status < 0 else status


class LocalWorkers:
    """Runs workers and reports what they write and how they end.

    Args:
        commands: one per worker.
        on_output: called with rank, stream and bytes, from several threads.
        on_exit: called once per worker with rank and exit code, after its last output.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        on_output: Callable[[int, str, bytes], None],
        on_exit: Callable[[int, int], None],
    ) -> None:
        self._commands = commands
        self._on_output = on_output
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._watchers: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        """Starts all workers; one that cannot be started is reported as ended with code 127."""
        for command in self._commands:
            with self._lock:
                if self._stopping:
                    self._on_exit(command.rank, exit_code(-signal.SIGTERM))
                    continue
                process = self._spawn(command)
                if process is None:
                    continue
                self._groups.add(process.pid)
                watcher = threading.Thread(target=self._watch, args=(command.rank, process))
                self._watchers.append(watcher)
                watcher.start()

    def stop(self) -> None:
        """Ends all workers and what they started: SIGTERM, and SIGKILL for what remains."""
        watchers = self._signal_all(signal.SIGTERM)
        deadline = time.monotonic() + TERMINATE_SECONDS
        for watcher in watchers:
            watcher.join(max(deadline - time.monotonic(), 0))
        self.kill()

    def kill(self) -> None:
        """Ends all workers and what they started, at once."""
        for watcher in self._signal_all(signal.SIGKILL):
            watcher.join()

    def _spawn(self, command: Command) -> "subprocess.Popen[bytes] | None":
        try:
            return subprocess.Popen(
                list(command.arguments),
                env=dict(command.environment),
                cwd=command.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = (
                f"cannot start {command.arguments[0]!r} in {command.directory}: {error.strerror}\n"
            )
            self._on_output(command.rank, STDERR, reason.encode())
            self._on_exit(command.rank, CANNOT_START)
            return None

    def _signal_all(self, number: signal.Signals) -> list[threading.Thread]:
        with self._lock:
            self._stopping = True
            for group in self._groups:
                _signal_group(group, number)
            return list(self._watchers)

    def _watch(self, rank: int, process: "subprocess.Popen[bytes]") -> None:
        pumps = [
            threading.Thread(target=self._pump, args=(rank, stream, pipe), daemon=True)
            for stream, pipe in ((STDOUT, process.stdout), (STDERR, process.stderr))
            if pipe is not None
        ]
        for pump in pumps:
            pump.start()
        status = process.wait()
        _end_group(process.pid)
        with self._lock:
            self._groups.discard(process.pid)
        for pump in pumps:
            pump.join(_DRAIN_SECONDS)
        self._on_exit(rank, exit_code(status))

    def _pump(self, rank: int, stream: str, pipe: IO[bytes]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), _CHUNK):
                self._on_output(rank, stream, data)


def _signal_group(group: int, number: signal.Signals) -> bool:
    """Sends a signal to all members of a group; False when it has none."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end_group(group: int) -> None:
    """Ends what a worker has left behind. A group keeps its number while it has members."""
    if not _signal_group(group, signal.SIGTERM):
        return
    deadline = time.monotonic() + TERMINATE_SECONDS
    while _has_members(group):
        if time.monotonic() > deadline:
            _signal_group(group, signal.SIGKILL)
            return
        time.sleep(_LOOK_SECONDS)


def _has_members(group: int) -> bool:
    """Whether a process of a group still runs; one that waits to be reaped does not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if fields[2] == str(group) and fields[0] not in "ZX":
            return True
    return False
