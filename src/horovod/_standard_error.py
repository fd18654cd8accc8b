"""Words for whoever runs the program, on its standard error."""

import contextlib
import sys


def is_there() -> bool:
    """Whether descriptor 2 was open when Python started; else it is some other file by now."""
    return sys.__stderr__ is not None


def say(text: str) -> None:
    """Tells the user a line; where standard error is closed or full, the program goes on."""
    stream = sys.stderr
    if stream is None:  # it was closed when Python started
        return
    with contextlib.suppress(OSError, ValueError):
        stream.write(text + "\n")
