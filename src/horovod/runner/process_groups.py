"""Process groups and sessions: signalling all members, and ending them."""

import errno
import os
import signal
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL
_LOOK_SECONDS = 0.02  # between looks at a session that has been asked to end
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


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
        self._seen: Collection[_Running] | None = ()

    def signal(self, sessions: Collection[int], number: signal.Signals) -> None:
        """Sends a signal to all members, whatever their groups."""
        if sessions:
            for group in {*sessions, *(self._groups_of(sessions) or ())}:
                signal_group(group, number)

    def end(self, *sessions: int) -> None:
        """Ends all members: SIGTERM, to all at once, and SIGKILL for what remains."""
        self.signal(sessions, signal.SIGTERM)
        deadline = time.monotonic() + TERMINATE_SECONDS
        while self._groups_of(sessions) != set():
            if time.monotonic() > deadline:
                self.signal(sessions, signal.SIGKILL)
                return
            time.sleep(_LOOK_SECONDS)

    def _groups_of(self, sessions: Collection[int]) -> set[int] | None:
        if (running := self._look()) is None:
            return None
        return {process.group for process in running if process.session in sessions}

    def members(self, session: int) -> Sequence[int]:
        """The processes of a session that run; its leader, where there is no room to look."""
        if (running := self._look()) is None:
            return [session]
        return sorted(process.pid for process in running if process.session == session)

    def _look(self) -> "Collection[_Running] | None":
        """Each process that runs, as seen from now on; None where there is no room to look."""
        with self._changed:
            wanted = self._looks_begun + 1
            self._changed.wait_for(lambda: not self._looking or self._last_look >= wanted)
            if self._last_look >= wanted:
                return self._seen
            self._looking = True
            self._looks_begun = look = self._looks_begun + 1
        seen: Collection[_Running] | None = None
        try:
            seen = list(_all_running())
        except OSError:
            return None
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
    """Each process that runs; one that waits to be reaped does not count.

    Raises:
        OSError: there is no room for another descriptor, say, which passes.
    """
    try:
        processes = list(Path("/proc").iterdir())
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        return  # no Linux, or a container that hides it
    for process in processes:
        if not process.name.isdecimal():
            continue
        try:
            fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            continue  # ended meanwhile
        if fields[0] not in b"ZX":
            yield _Running(int(process.name), int(fields[2]), int(fields[3]))
