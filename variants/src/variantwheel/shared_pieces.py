"""The wheels of a release in one file, in which what several of them hold alike stands once.

The wheels of a release differ in a few libraries. Each is cut where a member of its archive begins
and where the directory of members does, so that no byte of it has to be packed anew: the pieces,
one after the other, are the wheel. The ends, which hold the directories, come first in the file:
an sdist near whose end such a directory stands can be taken for a zip archive itself.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from variantwheel_selector.manifest import MOST_RANGES
from variantwheel_selector.payload import INVALID_ARCHIVE


@dataclass(frozen=True)
class Piece:
    """A part of a wheel.

    Attributes:
        wheel: The file.
        start: Where it begins there.
        end: Where it ends there.
    """

    wheel: Path
    start: int
    end: int

    def read(self) -> bytes:
        """Return its bytes."""
        with self.wheel.open("rb") as file:
            file.seek(self.start)
            return file.read(self.end - self.start)


@dataclass(frozen=True)
class SharedPieces:
    """How wheels stand in one file.

    Attributes:
        pieces: The file's content, in its order.
        ranges: For each wheel, offset and length in bytes of what it is made of.
    """

    pieces: tuple[Piece, ...]
    ranges: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(piece.end - piece.start for piece in self.pieces)

    def write(self, file: BinaryIO) -> None:
        """Write the file."""
        file.writelines(piece.read() for piece in self.pieces)


def share_pieces(wheels: Sequence[Path]) -> SharedPieces:
    """Find what wheels have in common; the same wheels always give the same result.

    Args:
        wheels: Files of any kind; those that are no zip archives are one piece each.
    """
    layout = _Layout()
    cuts = [_cut(wheel) for wheel in wheels]
    for pieces in cuts:
        layout.place(pieces[-1:])
    return SharedPieces(
        ranges=tuple(layout.place(pieces) for pieces in cuts), pieces=tuple(layout.pieces)
    )


class _Layout:
    """A file that grows by the pieces that it does not hold yet."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._offsets: dict[bytes, int] = {}
        self._end = 0

    def place(self, pieces: Sequence[Piece]) -> tuple[tuple[int, int], ...]:
        """Add what is missing of a wheel and return its ranges, those that adjoin as one."""
        found, added = self._find(pieces)
        if len(found) > MOST_RANGES:
            found, added = self._find([Piece(pieces[0].wheel, pieces[0].start, pieces[-1].end)])
        for digest, piece in added.items():
            self._offsets[digest] = self._end
            self._end += piece.end - piece.start
            self.pieces.append(piece)
        return tuple(found)

    def _find(self, pieces: Sequence[Piece]) -> tuple[list[tuple[int, int]], dict[bytes, Piece]]:
        """Return the ranges of a wheel, and the pieces that are new, by their hashes."""
        offsets, end = dict(self._offsets), self._end
        found: list[tuple[int, int]] = []
        added: dict[bytes, Piece] = {}
        for piece in pieces:
            digest, length = hashlib.sha256(piece.read()).digest(), piece.end - piece.start
            offset = offsets.setdefault(digest, end)
            if offset == end:
                added[digest] = piece
                end += length
            if found and sum(found[-1]) == offset:
                offset, before = found.pop()
                length += before
            found.append((offset, length))
        return found, added


def _cut(wheel: Path) -> list[Piece]:
    """Return the pieces of a wheel, one at least."""
    with wheel.open("rb") as file:
        size = file.seek(0, 2)
        places = {0, size, *(place for place in _starts(file) if 0 < place < size)}
    return [Piece(wheel, start, end) for start, end in pairwise(sorted(places))] or [
        Piece(wheel, 0, 0)
    ]


def _starts(file: BinaryIO) -> Iterator[int]:
    """Give the places where members of an archive begin, and where their directory does."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield from [info.header_offset for info in archive.infolist()]
            yield archive.start_dir
    except INVALID_ARCHIVE:
        return
