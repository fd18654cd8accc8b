"""Reads files that may be anything: huge, a named pipe, a device, unreadable."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading, unless it is one that might be waited for, or never end.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - for the caller
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


def read_bounded(path: str, limit: int) -> bytes:
    """Return the first bytes of a regular file, `limit` at most.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    descriptor = _without_waiting(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        chunks: list[bytes] = []
        size = 0
        while size < limit and (chunk := os.read(descriptor, limit - size)):
            chunks.append(chunk)
            size += len(chunk)
    finally:
        os.close(descriptor)
    return b"".join(chunks)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; without the flag a named pipe would be waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
