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
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - pathlib takes time
    # Not by tempfile, which takes time to import. Others may write into the folder too: a name that
    # nobody knows beforehand, of a file that is not there yet, not even as a link.
    beside = f"{folder}/.{name}.{os.urandom(8).hex()}.part"
    file = open(beside, "x+b", opener=_for_owner)  # noqa: SIM115 - as above; closed below
    try:
        with file:
            keep = write(file)
            if keep:
                make_readable(file.fileno())
        if keep:
            os.replace(beside, f"{folder}/{name}")  # noqa: PTH105 - as above
            return True
    except BaseException:
        _remove(beside)
        raise
    _remove(beside)
    return False


def make_readable(descriptor: int) -> None:
    """Let everybody read an open file, whatever lies at its path by now."""
    if hasattr(os, "fchmod"):  # Windows has it from Python 3.13 on, and no such permissions
        os.fchmod(descriptor, 0o644)


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108 - pathlib takes time
