"""A folder that one process at a time works in."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked_folder(folder: Path, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a folder's lock while the block runs; the end of the process lets go of it too.

    Args:
        folder: Made if it is missing.
        name: Of the lock's file in it, which stays there.
        waiting: Called when another process holds the lock, before waiting for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
