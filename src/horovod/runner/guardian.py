"""Ends the workers of a launcher that was killed, and so cannot end them itself.

It reads lines on standard input: `+<group>` when a process group has been started, `-<group>` when
it has ended. The end of the input means that the launcher is gone.
"""

import sys
from collections.abc import Iterable

from horovod.runner.process_groups import end_groups


def read_orphans(lines: Iterable[bytes]) -> set[int]:
    """The process groups that have been started and have not ended when the input ends."""
    groups: set[int] = set()
    for line in lines:
        (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))
    return groups


if __name__ == "__main__":
    end_groups(*read_orphans(sys.stdin.buffer))
