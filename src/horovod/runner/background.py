"""What a worker that has ended well leaves running in the background, as a shell's `upload &`."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from horovod.runner.process_groups import Sessions

# Horovod waits as long as the output is held open: for ever, where a worker leaves a server behind.
LONGEST_SECONDS = 60.0
SAID_SECONDS = 5.0  # until it is said what is waited for
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5  # between looks at what runs, which take long if much does
_LONGEST_COMMAND = 100  # characters of it that are shown


def await_background(
    session: int,
    sessions: Sessions,
    pumps: Sequence[threading.Thread],
    ending: Callable[[], bool],
    say: Callable[[str], None],
) -> None:
    """Waits for what is left of a worker's session, while it holds the worker's output open.

    Args:
        session: named by the worker, which has ended.
        sessions: looks at it.
        pumps: run while somebody holds an output open.
        ending: whether the worker is to end, with all that it has started.
        say: told the user, with a line end.
    """
    begun = time.monotonic()
    pause = _FIRST_PAUSE
    said = False
    while pumps := _running(pumps, pause):
        members = () if ending() else sessions.members(session)
        if not members:  # it is to end, or somebody outside of the session holds the output
            return
        waited = time.monotonic() - begun
        if waited >= LONGEST_SECONDS:
            say(
                f"This rank has ended with code 0. What it has left running is ended now, after"
                f" {LONGEST_SECONDS:g} seconds: {_describe(members)}\n"
            )
            return
        if not said and waited >= SAID_SECONDS:
            said = True
            say(
                "This rank has ended with code 0, and is waited for until what it has left running"
                f" has ended, or closed its output, for up to {LONGEST_SECONDS:g} seconds:"
                f" {_describe(members)}\n"
            )
        pause = min(2 * pause, _LONGEST_PAUSE)


def _running(threads: Sequence[threading.Thread], seconds: float) -> Sequence[threading.Thread]:
    """Those that still run after a while."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    return [thread for thread in threads if thread.is_alive()]


def _describe(processes: Sequence[int]) -> str:
    return ", ".join(f"{process} ({_command_of(process)})" for process in processes)


def _command_of(process: int) -> str:
    """What it was started with, as far as there is room for it."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return "it has ended"
    command = b" ".join(words).decode(errors="backslashreplace")
    return command if len(command) <= _LONGEST_COMMAND else f"{command[:_LONGEST_COMMAND]}..."
