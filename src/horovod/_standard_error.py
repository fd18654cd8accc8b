"""Words for whoever runs the program, on its standard error."""

import contextlib
import sys


def say(text: str) -> None:
    """Tells the user a line; where standard error is closed or full, the program goes on."""
    stream = sys.stderr
    if stream is None:  # it was closed when Python started
        return
    with contextlib.suppress(OSError, ValueError):
        stream.write(text + "\n")
