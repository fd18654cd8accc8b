"""Workers on this host: each leads a session of its own, which ends with it.

What a worker leaves running that has ended with code 0 is waited for, if not for ever.
"""

import contextlib
import errno
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from horovod.runner.background import await_background
from horovod.runner.children import EndNotToldError, await_end
from horovod.runner.guardian import MARK
from horovod.runner.import_paths import absolute_paths
from horovod.runner.output import STDERR, STDOUT
from horovod.runner.process_groups import TERMINATE_SECONDS, Sessions, signal_group
from horovod.runner.threads import ThreadError, start_thread, why_not_started

_DRAIN_SECONDS = 5.0  # for output of a worker that has ended, should a stranger hold the pipe open
_CHUNK = 1 << 16
CANNOT_START = 127  # exit code, as shells have it
NOT_TOLD_CODE = 1  # of a process whose own nobody knows


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


class Guardian:
    """A process that ends the workers should this one be killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "horovod.runner.guardian"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,  # `-m` puts the current folder first on the path
            env={**os.environ, **absolute_paths(os.environ)},
            bufsize=0,
            start_new_session=True,
        )

    def expect(self) -> dict[str, str]:
        """Says that a worker is about to be started.

        Returns:
            What its environment has to have, by which it is found should this process be killed
            before it can say which session it leads.
        """
        mark = f"{self._process.pid}-{secrets.token_hex(8)}"
        self._tell(b"=%b\n" % mark.encode())
        return {MARK: mark}

    def note(self, sign: bytes, session: int) -> None:
        """Says that a session has been started (`+`) or has ended (`-`)."""
        self._tell(b"%b%d\n" % (sign, session))

    def dismiss(self) -> None:
        """Lets it end; returns when it has."""
        self._tell(b"=\n")  # what was expected and could not be started
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def _tell(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it was killed; the job needs it not
                self._process.stdin.write(line)


def _join_all(threads: Iterable[threading.Thread], seconds: float) -> None:
    """Waits for threads to end, so long for all of them."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))


def _popen(
    command: Command, arguments: Sequence[str], mark: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(arguments),
        env={**command.environment, **mark},
        cwd=command.directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _end_new(
    process: "subprocess.Popen[bytes]", pipes: Sequence[tuple[str, IO[bytes] | None]]
) -> None:
    """Ends a worker that has just been started, and closes pipes that nobody reads."""
    signal_group(process.pid, signal.SIGKILL)
    process.wait()
    for _, pipe in pipes:
        if pipe is not None:
            pipe.close()


def _script(command: Command) -> str | None:
    """The path of a program that the system cannot execute, where it may be a shell's script.

    Returns:
        None where it is none: a program for another processor, say, has bytes of 0 in it.
    """
    name = command.arguments[0]
    path = name if os.sep in name else shutil.which(name, path=command.environment.get("PATH"))
    if path is None:
        return None
    with (command.directory / path).open("rb") as file:
        return None if b"\0" in file.read(_CHUNK) else path


def _started_by_python(command: Command) -> str:
    """What starts a Python script that was named without `python`; empty for anything else."""
    name = command.arguments[0]
    if not name.endswith(".py") or not (command.directory / name).is_file():
        return ""
    return f"; it is started by: python {shlex.quote(name)}"


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
        self._sessions = Sessions()
        self._leaders: dict[int, int] = {}  # by rank
        self._watchers: dict[int, threading.Thread] = {}
        self._stopping = False
        self._unwanted: set[int] = set()  # ranks that are not to be started any more
        self._running = 0

    def start(self) -> None:
        """Starts all workers; one that cannot be started is reported as ended with code 127."""
        try:
            guardian = Guardian()
        except OSError as error:
            for command in self._commands:
                self._report(command.rank, f"cannot start a guardian: {why_not_started(error)}")
            return
        self._running = 1  # this call, so that the guardian stays until all have been started
        try:
            for command in self._commands:
                if self._is_to_end(command.rank):
                    self._on_exit(command.rank, exit_code(-signal.SIGTERM))
                elif (process := self._spawn(command, guardian)) is not None:
                    # Whoever waits for the lock gets it while the next one is being started.
                    with self._lock:
                        self._running += 1
                        self._attend(command.rank, process, guardian)
        finally:
            self._release(guardian)

    def stop(self) -> None:
        """Ends all workers and what they started: SIGTERM, and SIGKILL for what remains.

        Those that have not been started yet never are, and are reported as ended by SIGTERM.
        """
        try:
            _join_all(self._signal_all(signal.SIGTERM), TERMINATE_SECONDS)
        finally:
            self.kill()

    def stop_one(self, rank: int) -> None:
        """Ends a worker and what it started, as `stop` ends all.

        One that has not been started yet never is, and is reported as ended by SIGTERM.
        """
        if (watcher := self._signal_one(rank, signal.SIGTERM)) is not None:
            watcher.join(TERMINATE_SECONDS)
        if (watcher := self._signal_one(rank, signal.SIGKILL)) is not None:
            watcher.join()

    def kill(self) -> None:
        """Ends all workers and what they started, at once."""
        for watcher in self._signal_all(signal.SIGKILL):
            watcher.join()

    @property
    def gone(self) -> bool:
        """Whether all workers have ended that `start` has started, and have been reported."""
        return not any(watcher.is_alive() for watcher in self._watchers.values())

    def _is_to_end(self, rank: int) -> bool:
        return self._stopping or rank in self._unwanted

    def _spawn(self, command: Command, guardian: Guardian) -> "subprocess.Popen[bytes] | None":
        mark = guardian.expect()
        try:
            try:
                return _popen(command, command.arguments, mark)
            except OSError as error:
                if error.errno != errno.ENOEXEC or (script := _script(command)) is None:
                    raise
                return _popen(command, ["/bin/sh", script, *command.arguments[1:]], mark)
        except OSError as error:
            what = f"{command.arguments[0]!r} in {command.directory}"
            if error.filename == str(command.directory):
                what = f"anything in {command.directory}"
            why = f"{why_not_started(error)}{_started_by_python(command)}"
            self._report(command.rank, f"cannot start {what}: {why}")
            return None

    def _report(self, rank: int, reason: str) -> None:
        """Says why a worker does not run."""
        self._on_output(rank, STDERR, f"{reason}\n".encode())
        self._on_exit(rank, CANNOT_START)

    def _attend(self, rank: int, process: "subprocess.Popen[bytes]", guardian: Guardian) -> None:
        """Starts the threads that a worker needs; without them it is killed."""
        pipes = [(STDOUT, process.stdout), (STDERR, process.stderr)]
        if self._is_to_end(rank):  # since it was started
            _end_new(process, pipes)
            self._running -= 1
            self._on_exit(rank, exit_code(-signal.SIGTERM))
            return
        self._leaders[rank] = process.pid
        guardian.note(b"+", process.pid)
        pumps: list[threading.Thread] = []
        try:
            for stream, pipe in pipes:
                work = "a thread for a worker's output"
                pumps.append(start_thread(self._pump, work, rank, stream, pipe, daemon=True))
            watch = (rank, process, guardian, pumps)
            self._watchers[rank] = start_thread(self._watch, "a worker's watcher", *watch)
        except ThreadError as error:
            del self._leaders[rank]
            _end_new(process, pipes[len(pumps) :])
            guardian.note(b"-", process.pid)
            self._running -= 1
            for pump in pumps:
                pump.join(_DRAIN_SECONDS)
            self._report(rank, str(error))

    def _signal_all(self, number: signal.Signals) -> list[threading.Thread]:
        self._stopping = True
        with self._lock:
            self._sessions.signal(self._leaders.values(), number)
            return list(self._watchers.values())

    def _signal_one(self, rank: int, number: signal.Signals) -> threading.Thread | None:
        """Signals a worker and what it started; returns its watcher, None when it has ended."""
        self._unwanted.add(rank)
        with self._lock:
            if rank not in self._leaders:
                return None
            self._sessions.signal([self._leaders[rank]], number)
            return self._watchers.get(rank)

    def _watch(
        self,
        rank: int,
        process: "subprocess.Popen[bytes]",
        guardian: Guardian,
        pumps: Sequence[threading.Thread],
    ) -> None:
        """Reports a worker's end, whatever becomes of watching it."""
        code = CANNOT_START
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: self._on_exit(rank, code))
            stack.callback(_join_all, pumps, _DRAIN_SECONDS)
            stack.callback(self._release, guardian)
            try:
                code = self._await_end(rank, process, guardian, pumps)
            except BaseException as error:
                self._give_up(rank, process, error)
                raise

    def _await_end(
        self,
        rank: int,
        process: "subprocess.Popen[bytes]",
        guardian: Guardian,
        pumps: Sequence[threading.Thread],
    ) -> int:
        """Ends a worker's session after it; returns its exit code."""

        def say(text: str) -> None:
            self._on_output(rank, STDERR, text.encode())

        unknown = ""
        try:
            # Nobody else gets the number of a process that has not been waited for.
            ended_well = await_end(process) == 0
        except EndNotToldError as error:
            unknown, ended_well = f"{error}\n", False
        if ended_well:
            await_background(process.pid, self._sessions, pumps, lambda: self._is_to_end(rank), say)
        self._sessions.end(process.pid)
        with self._lock:
            del self._leaders[rank]
            status = process.wait()
            guardian.note(b"-", process.pid)
        if unknown:
            say(unknown)
        return NOT_TOLD_CODE if unknown else exit_code(status)

    def _give_up(self, rank: int, process: "subprocess.Popen[bytes]", error: BaseException) -> None:
        """Ends a worker that cannot be watched, and says why.

        The guardian is not told, and so ends what is left of the session with the last worker.
        """
        with self._lock:
            self._leaders.pop(rank, None)
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
                process.wait()
        reason = f"the launcher cannot watch this worker any more, and has ended it: {error!r}\n"
        self._on_output(rank, STDERR, reason.encode(errors="backslashreplace"))

    def _release(self, guardian: Guardian) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                guardian.dismiss()

    def _pump(self, rank: int, stream: str, pipe: IO[bytes]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), _CHUNK):
                self._on_output(rank, stream, data)
