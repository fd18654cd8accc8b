"""Process groups and sessions: signalling all members, and ending them."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL
_LOOK_SECONDS = 0.02  # between looks at a session that has been asked to end


def signal_group(group: int, number: signal.Signals) -> bool:
    """Sends a signal to all members of a group; False when it has none."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class Sessions:
    """Sessions of processes, each named by its leader.

    Shells with job control and GNU `timeout` put what they start into groups of its own. Where many
    sessions end at once, threads that ask which processes run share the answer: on large machines
    it takes long.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._looking = False
        self._looks_begun = 0
        self._last_look = 0
        self._seen: Collection[_Running] = ()

    def signal(self, sessions: Collection[int], number: signal.Signals) -> None:
        """Sends a signal to all members, whatever their groups."""
        if sessions:
            for group in {*sessions, *self._groups_of(sessions)}:
                signal_group(group, number)

    def end(self, *sessions: int) -> None:
        """Ends all members: SIGTERM, to all at once, and SIGKILL for what remains."""
        self.signal(sessions, signal.SIGTERM)
        deadline = time.monotonic() + TERMINATE_SECONDS
        while self._groups_of(sessions):
            if time.monotonic() > deadline:
                self.signal(sessions, signal.SIGKILL)
                return
            time.sleep(_LOOK_SECONDS)

    def _groups_of(self, sessions: Collection[int]) -> set[int]:
        return {process.group for process in self._look() if process.session in sessions}

    def members(self, session: int) -> Sequence[int]:
        """The processes of a session that run."""
        return sorted(process.pid for process in self._look() if process.session == session)

    def _look(self) -> "Collection[_Running]":
        """Each process that runs, as seen from now on."""
        with self._changed:
            wanted = self._looks_begun + 1
            self._changed.wait_for(lambda: not self._looking or self._last_look >= wanted)
            if self._last_look >= wanted:
                return self._seen
            self._looking = True
            self._looks_begun = look = self._looks_begun + 1
        seen: Collection[_Running] = ()
        try:
            seen = list(_all_running())
        finally:
            with self._changed:
                self._looking = False
                self._last_look, self._seen = look, seen
                self._changed.notify_all()
        return seen


@dataclass(frozen=True)
class _Running:
    pid: int
    group: int
    session: int


def _all_running() -> Iterator[_Running]:
    """Each process that runs; one that waits to be reaped does not count."""
    processes: list[Path] = []
    with contextlib.suppress(OSError):  # no Linux, or a container that hides it
        processes = list(Path("/proc").iterdir())
    for process in processes:
        if not process.name.isdecimal():
            continue
        try:
            fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if fields[0] not in b"ZX":
            yield _Running(int(process.name), int(fields[2]), int(fields[3]))
