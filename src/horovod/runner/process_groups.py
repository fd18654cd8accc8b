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


def end_groups(*groups: int) -> None:
    """Ends all members of groups: SIGTERM, to all at once, and SIGKILL for what remains.

    A group keeps its number while it has members.
    """
    left = {group for group in groups if signal_group(group, signal.SIGTERM)}
    deadline = time.monotonic() + TERMINATE_SECONDS
    while left and (left := left & {group for group, _ in _running()}):
        if time.monotonic() > deadline:
            for group in left:
                signal_group(group, signal.SIGKILL)
            return
        time.sleep(_LOOK_SECONDS)


def groups_of_session(session: int) -> set[int]:
    """The process groups whose members belong to a session."""
    return {group for group, belongs_to in _running() if belongs_to == session}


def _running() -> Iterator[tuple[int, int]]:
    """Group and session of each process that runs; one that waits to be reaped does not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if fields[0] not in "ZX":
            yield int(fields[2]), int(fields[3])
