"""Which process has started another one, as Linux tells it."""

from pathlib import Path


def parent_of(process: int) -> int:
    """The id of a process's parent.

    Raises:
        OSError: there is no such process, or no `/proc`.
    """
    # The second word, a name in parentheses, may have spaces and parentheses itself, and need not
    # be text: the kernel keeps its first 15 bytes, wherever a character ends.
    words = Path("/proc", str(process), "stat").read_bytes().rpartition(b")")[2].split()
    return int(words[1])
