"""Writes gzip streams in which what is compressed already is stored as it is.

What is compressed itself inside an sdist cannot be made smaller, but whoever unpacks the sdist
would pay for having tried: inflating such data takes four times as long as copying it, and pip does
so twice. The end of what is stored is compressed all the same: pip 23 and older take any file for a
zip archive near whose end the record stands that ends such archives, as it does in a wheel.

Source: RFC 1951 (DEFLATE) and RFC 1952 (gzip). One member, which every reader accepts.
"""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO

_LARGEST_STORED = 0xFFFF
_HELD = 576
"""Bytes at the end of what is stored that are compressed: the 22 of a zip archive's record, and up
to 511 of padding in a tar file. So few that they are compressed indeed, with what follows them.
"""
_HEADER = b"\x1f\x8b\x08\x00"
_UNKNOWN_SYSTEM = b"\x00\xff"
_LAST_EMPTY_BLOCK = b"\x03\x00"


class SdistGzip:
    """A file that is written to as a gzip stream."""

    def __init__(self, file: BinaryIO, modified: int, level: int = 6) -> None:
        """Begin a stream.

        Args:
            file: Takes the stream.
            modified: Time in the header, in seconds since 1970.
            level: Of compression, 1 to 9.
        """
        self._stores = False
        self._held = b""
        self._first = 0
        self._file = file
        self._level = level
        self._compressor: zlib._Compress | None = None
        self._crc = self._size = 0
        file.write(_HEADER + struct.pack("<L", modified & 0xFFFFFFFF) + _UNKNOWN_SYSTEM)

    def tell(self) -> int:
        """Return how many bytes were written to the stream."""
        return self._size

    def store(self, *, on: bool, after: int = 0) -> None:
        """Let what is written from now on be stored, or compressed.

        Args:
            on: Whether it is stored.
            after: How many bytes are compressed before that.
        """
        if self._held:
            self._compress(self._held)
            self._held = b""
        self._stores, self._first = on, after

    def write(self, data: bytes) -> int:
        """Add bytes; return how many."""
        self._crc = zlib.crc32(data, self._crc)
        self._size += len(data)
        if self._stores:
            if self._first:
                self._compress(data[: self._first])
            self._held += data[self._first :]
            self._first = max(0, self._first - len(data))
            whole, self._held = self._held[:-_HELD], self._held[-_HELD:]
            self._copy(whole)
        else:
            self._compress(data)
        return len(data)

    def _compress(self, data: bytes) -> None:
        if self._compressor is None:
            self._compressor = zlib.compressobj(self._level, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._file.write(self._compressor.compress(data))

    def _copy(self, data: bytes) -> None:
        if data and self._compressor is not None:
            # Ends the block at the edge of a byte; the next compressor begins without a past.
            self._file.write(self._compressor.flush(zlib.Z_FULL_FLUSH))
            self._compressor = None
        for start in range(0, len(data), _LARGEST_STORED):
            part = data[start : start + _LARGEST_STORED]
            self._file.write(struct.pack("<BHH", 0, len(part), len(part) ^ 0xFFFF) + part)

    def finish(self) -> None:
        """Write the stream's end; the file stays open."""
        self.store(on=False)
        last = _LAST_EMPTY_BLOCK if self._compressor is None else self._compressor.flush()
        self._file.write(last + struct.pack("<LL", self._crc, self._size & 0xFFFFFFFF))
