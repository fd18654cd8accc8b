"""Where the user's program is, for messages about it."""

import sys
from pathlib import Path

_OWN = str(Path(__file__).parent) + "/"


def call_site() -> str:
    """The innermost line on this thread's stack that is not this package's: "train.py:42"."""
    frame = sys._getframe()  # noqa: SLF001 - the only cheap way to the caller's line
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
