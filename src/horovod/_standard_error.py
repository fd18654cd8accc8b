"""Words for whoever runs the program, on its standard error."""

import contextlib
import os
import sys

from horovod import _settings


def is_there() -> bool:
    """Whether descriptor 2 was open when Python started; else it is some other file by now."""
    return sys.__stderr__ is not None


def warn(text: str) -> None:
    """Tells the user a line, unless HOROVOD_LOG_LEVEL leaves warnings out.

    Raises:
        SettingError: the variable's value is not accepted.
    """
    level = _settings.LOG_LEVEL.read(os.environ)
    if _settings.LOG_LEVELS.index(level) <= _settings.LOG_LEVELS.index("warning"):
        say(text)


def say(text: str) -> None:
    """Tells the user a line; where standard error is closed or full, the program goes on."""
    stream = sys.stderr
    if stream is None:  # it was closed when Python started
        return
    with contextlib.suppress(OSError, ValueError):
        stream.write(text + "\n")
