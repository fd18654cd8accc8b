"""Writes a wheel beside its place and moves it there, hashing what it is copied from."""

from __future__ import annotations

import hashlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from io import FileIO
    from typing import BinaryIO

_CHUNK = 256 << 10


class Pieces:
    """Ranges of a file, read one after the other as if they were a file of their own."""

    def __init__(self, file: FileIO, ranges: Iterable[Sequence[int]]) -> None:
        """Take a file without a buffer, and ranges as offset and length in bytes."""
        self._file = file
        self._ranges = iter(ranges)
        self._left = 0

    def readinto(self, buffer: memoryview) -> int:
        """Fill the beginning of a buffer; 0 after the last range, or where the file ends."""
        if not self._left:
            offset, self._left = next(self._ranges, (0, 0))
            self._file.seek(offset)
        count = self._file.readinto(buffer[: self._left]) or 0
        self._left -= count
        return count


def hashed_copy(
    read_into: Callable[[memoryview], int | None], copy: BinaryIO | None
) -> tuple[int, str]:
    """Read a file to its end and return its size and SHA-256.

    Args:
        read_into: `readinto` of a file without a buffer, or of its pieces.
        copy: Takes the bytes as they are read, if there is one.
    """
    digest = hashlib.sha256()
    size = 0
    # One buffer for all: large pieces of memory, got anew for each, take as long as hashing.
    buffer = memoryview(bytearray(_CHUNK))
    while count := read_into(buffer):
        digest.update(buffer[:count])
        size += count
        if copy is not None:
            copy.write(buffer[:count])
    return size, digest.hexdigest()


def write_beside(folder: str, name: str, write: Callable[[BinaryIO], bool]) -> bool:
    """Write a file under another name, and give it its own when it is complete.

    Args:
        folder: Where it goes; made if it is not there.
        name: Replaces a file of this name.
        write: Writes the content, and tells whether it is to be kept.

    Returns:
        What `write` told.

    Raises:
        OSError: There is no room, or no permission; nothing is left behind.
    """
    # Not by tempfile: a front end made the folder for this process alone, and importing takes time.
    beside = f"{folder}/.{name}.{os.getpid()}.part"
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - pathlib takes time
        with open(beside, "w+b") as file:  # noqa: PTH123 - as above
            keep = write(file)
        if keep:
            os.chmod(beside, 0o644)  # noqa: PTH101 - as above
            os.replace(beside, f"{folder}/{name}")  # noqa: PTH105 - as above
            return True
    except BaseException:
        _remove(beside)
        raise
    _remove(beside)
    return False


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108 - pathlib takes time
