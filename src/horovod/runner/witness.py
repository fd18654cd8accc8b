"""Tells the launcher that an agent has ended, where something else keeps its connection open.

What a login shell has started may hold the output of ssh open, which ends with the last of those
that hold it. So a shell waits for the end of the agent, and says on standard error that it is gone.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator

GONE = b"HOROVOD-AGENT-GONE\n"  # the end of a line
_SCRIPT = f"read -r _; echo {GONE.decode().rstrip()} >&2"


@contextlib.contextmanager
def witnessed() -> Iterator[None]:
    """Has the end of this process told, however it comes, or that of the block.

    Where there is no room for another process, the end of the connection has to do.
    """
    try:
        witness = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=os.sep,
            start_new_session=True,
        )
    except OSError:
        yield
        return
    with witness:
        yield
