"""Ends the workers of a launcher that was killed, and so cannot end them itself.

It reads lines on standard input: `+<session>` when a worker has been started that leads a session,
`-<session>` when all of that has ended. The end of the input means that the launcher is gone.
"""

import sys
from collections.abc import Iterable

from horovod.runner.process_groups import Sessions


def read_orphans(lines: Iterable[bytes]) -> set[int]:
    """The sessions that have been started and have not ended when the input ends."""
    sessions: set[int] = set()
    for line in lines:
        (sessions.add if line.startswith(b"+") else sessions.discard)(int(line[1:]))
    return sessions


if __name__ == "__main__":
    Sessions().end(*read_orphans(sys.stdin.buffer))
