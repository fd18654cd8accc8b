"""Process groups: signalling all members, and ending them."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL
_LOOK_SECONDS = 0.02  # between looks at a group that has been asked to end


def signal_group(group: int, number: signal.Signals) -> bool:
    """Sends a signal to all members of a group; False when it has none."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_group(group: int) -> None:
    """Ends all members of a group: SIGTERM, and SIGKILL for what remains.

    A group keeps its number while it has members.
    """
    if not signal_group(group, signal.SIGTERM):
        return
    deadline = time.monotonic() + TERMINATE_SECONDS
    while _has_members(group):
        if time.monotonic() > deadline:
            signal_group(group, signal.SIGKILL)
            return
        time.sleep(_LOOK_SECONDS)


def groups_of_session(session: int) -> set[int]:
    """The process groups whose members belong to a session."""
    return {group for group, belongs_to in _running() if belongs_to == session}


def _has_members(group: int) -> bool:
    """Whether a process of a group still runs; one that waits to be reaped does not count."""
    return any(of_process == group for of_process, _ in _running())


def _running() -> Iterator[tuple[int, int]]:
    """Group and session of each process that runs."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if fields[0] not in "ZX":
            yield int(fields[2]), int(fields[3])
