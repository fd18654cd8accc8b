"""Ends the workers of a launcher that was killed, and so cannot end them itself.

It reads lines on standard input: `=<mark>` when a worker is about to be started in whose
environment that will be `MARK`, `+<session>` when it has been started and leads a session,
`-<session>` when all of that has ended. The end of the input means that the launcher is gone.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from horovod.runner.process_groups import Sessions

MARK = "_HOROVOD_STARTED_AS"  # a variable
_LONGEST_START = 1.0  # seconds from a launcher's end until a worker that it was starting is seen
_LOOK_SECONDS = 0.02


def read_orphans(lines: Iterable[bytes]) -> tuple[set[int], bytes]:
    """What has been started and has not ended when the input ends.

    Returns:
        The sessions, and the mark of a worker that was just being started; empty if none was.
    """
    sessions: set[int] = set()
    mark = b""
    for line in lines:
        kind, value = line[:1], line[1:].rstrip(b"\n")
        if kind == b"=":
            mark = value
        elif kind == b"+":
            sessions.add(int(value))
            mark = b""
        else:
            sessions.discard(int(value))
    return sessions, mark


def await_marked(mark: bytes) -> set[int]:
    """The sessions of a worker that was being started; none if it does not show up soon."""
    deadline = time.monotonic() + _LONGEST_START
    while not (found := _sessions_with(b"%b=%b" % (MARK.encode(), mark))):
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_SECONDS)
    return found


def _sessions_with(entry: bytes) -> set[int]:
    """Those of processes whose environment has an entry, as far as this user may look."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if entry in (process / "environ").read_bytes().split(b"\0"):
                found.add(os.getsid(int(process.name)))
    return found


if __name__ == "__main__":
    orphans, started = read_orphans(sys.stdin.buffer)
    Sessions().end(*orphans, *(await_marked(started) if started else ()))
