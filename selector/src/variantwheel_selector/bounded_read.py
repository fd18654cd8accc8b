"""Reads the beginning of a file that may be anything: huge, a named pipe, a device, unreadable."""

from __future__ import annotations

import errno
import os
import stat


def read_bounded(path: str, limit: int) -> bytes:
    """Return the first bytes of a regular file, `limit` at most.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    # Without O_NONBLOCK a named pipe would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
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
