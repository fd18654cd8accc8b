"""mpirun as a process beside this one, which ends with it."""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from horovod.runner.children import EndNotToldError, await_end
from horovod.runner.process_groups import TERMINATE_SECONDS, Sessions, signal_group
from horovod.runner.processes import NOT_TOLD_CODE, Guardian, exit_code
from horovod.runner.signals import Signalled, signals_as_events
from horovod.runner.streams import say
from horovod.runner.threads import start_thread

_ENDING_SECONDS = 2 * TERMINATE_SECONDS  # mpirun has its daemons end the ranks of all hosts

_Events = queue.SimpleQueue[Signalled | int]  # mpirun's exit code


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, int | None]:
    """Runs mpirun until it ends, or is ended because this process gets a signal or is killed.

    It gets SIGTERM then, of which it ends its ranks, on other hosts too. Should it not end in time,
    or at a signal that says so (`Signalled.at_once`), it is killed, and what it has started here.

    Args:
        command: what to run; it reads nothing from standard input.
        environment: all of it.

    Returns:
        Its exit code, 128 + n when signal n ended it or came for this process, and the first one
        that came for this process.

    Raises:
        OSError: it, or the guardian, cannot be started.
        ThreadError: there is no room for the thread that waits for it.
    """
    events: _Events = queue.SimpleQueue()
    guardian = Guardian()
    try:
        with signals_as_events(events.put):
            # In a session of its own: the terminal's signals come to this process alone.
            process = subprocess.Popen(
                command,
                env={**environment, **guardian.expect()},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                guardian.note(b"+", process.pid)
                start_thread(_watch, "a thread that waits for mpirun", process, events, daemon=True)
                code, signalled = _supervise(process, events)
            except BaseException:
                _kill(process)
                process.wait()
                raise
            Sessions().end(process.pid)  # nobody is left but of an mpirun that was killed
            process.wait()  # where the watcher has failed
            if process.returncode == -signal.SIGKILL:
                _remove_files(process.pid, environment)
            guardian.note(b"-", process.pid)
    finally:
        guardian.dismiss()
    return (code if signalled is None else 128 + signalled), signalled


def _watch(process: "subprocess.Popen[bytes]", events: _Events) -> None:
    code = NOT_TOLD_CODE
    try:
        code = exit_code(await_end(process))
    except EndNotToldError as error:
        say(f"mpirun: {error}")
    finally:
        try:
            process.wait()
        finally:
            events.put(code)  # the main thread waits for it, whatever happens here


def _supervise(process: "subprocess.Popen[bytes]", events: _Events) -> tuple[int, int | None]:
    """Returns mpirun's exit code when it has ended, and the first signal that came meanwhile."""
    signalled: int | None = None
    deadline: float | None = None
    while True:
        try:
            patience = None if deadline is None else max(deadline - time.monotonic(), 0)
            event = events.get(timeout=patience)
        except queue.Empty:
            deadline = None
            _kill(process)
            continue
        if isinstance(event, int):
            return event, signalled
        if event.at_once:
            _kill(process)
        elif signalled is None:
            signal_group(process.pid, signal.SIGTERM)
            deadline = time.monotonic() + _ENDING_SECONDS
        signalled = event.number if signalled is None else signalled


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends mpirun at once, and its ranks here: Open MPI's lead groups of their own in its session.

    MPICH's are in other sessions, and end when they lose mpirun.
    """
    Sessions().signal([process.pid], signal.SIGKILL)


def _remove_files(pid: int, environment: Mapping[str, str]) -> None:
    """Those that Open MPI's mpirun leaves if it is killed, which fail a later one of its number."""
    folders = (environment.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    files = Path(next(filter(None, folders), "/tmp"), f"ompi.{pid}")  # noqa: S108 - Open MPI's default
    with contextlib.suppress(OSError):
        if files.lstat().st_uid == os.geteuid():
            shutil.rmtree(files)  # not what a link leads to
