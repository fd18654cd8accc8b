"""How much an archive may unpack to: more would fill the memory of whoever reads it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from variantwheel_selector.archive_tail import LARGE, MOST_EXPANSION

_PIECE = 1 << 16


class Expansion:
    """Counts what one archive unpacks to, by the measure that wheels are under as well."""

    def __init__(self, file: Path) -> None:
        """Take the archive."""
        self._packed = file.stat().st_size
        self._most = self._left = max(LARGE, self._packed * MOST_EXPANSION)

    def read_all(self, stream: BinaryIO) -> bytes:
        """Read what is left of a stream.

        Raises:
            OSError: It is too much.
        """
        parts: list[bytes] = []
        # In pieces: for a size that is asked for, memory is taken whether there is so much or not.
        while data := stream.read(_PIECE):
            self.count(len(data))
            parts.append(data)
        return b"".join(parts)

    def count(self, size: int) -> None:
        """Count bytes that were unpacked.

        Raises:
            OSError: They are too many.
        """
        self._left -= size
        if self._left < 0:
            raise OSError(f"it would expand from {self._packed} to more than {self._most} bytes")


class CountedStream:
    """A stream, as `tarfile` reads it, of which all is counted."""

    def __init__(self, stream: BinaryIO, expansion: Expansion) -> None:
        """Take the stream, and what counts its bytes."""
        self._stream, self._expansion = stream, expansion

    def read(self, size: int) -> bytes:
        """Read some bytes, none at the end.

        Raises:
            OSError: They are too many.
        """
        data = self._stream.read(size)
        self._expansion.count(len(data))
        return data
