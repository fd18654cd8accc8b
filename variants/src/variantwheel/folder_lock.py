"""A folder that one process at a time works in."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from variantwheel.errors import ReleaseFolderError


@contextmanager
def locked_folder(
    folder: Path, name: str, waiting: Callable[[], None], *, stays: bool = True
) -> Iterator[None]:
    """Hold a folder's lock while the block runs; the end of the process lets go of it too.

    Args:
        folder: Made if it is missing.
        name: Of the lock's file in it.
        waiting: Called when another process holds the lock, before waiting for it.
        stays: Whether the file stays there; not in a folder whose content is handed on.

    Raises:
        ReleaseFolderError: The lock's file is a link.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    while True:
        with _opened(file) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_there(file, lock):
                continue  # who held it has removed it, and others lock the next one
            try:
                yield
            finally:
                if not stays:
                    file.unlink(missing_ok=True)
            return


def _is_there(file: Path, lock: BinaryIO) -> bool:
    """Tell whether an open file is the one of that name."""
    try:
        return os.path.samestat(file.lstat(), os.fstat(lock.fileno()))
    except FileNotFoundError:
        return False


def _opened(file: Path) -> BinaryIO:
    """Open a lock's file, made if it is missing; its content, were it another file, stays."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ReleaseFolderError(
            f"{file}: is a link, and the lock of this folder has to be a file of its own; "
            "remove the link if you did not make it, somebody else did"
        ) from error
    return os.fdopen(descriptor, "r+b", buffering=0)
