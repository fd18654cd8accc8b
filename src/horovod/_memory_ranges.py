"""Where pieces of memory lie, and which of them share some."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from horovod._operations import Operand

_MOST_TRIES = 10_000  # to find out whether two pieces meet: milliseconds
_MOST_PLACES = 10_000  # of elements, to find out whether some are one: milliseconds


def bytes_of(operand: Operand) -> int:
    """How many bytes a tensor takes."""
    bits = "".join(filter(str.isdigit, operand.dtype))  # "bool" has none
    return math.prod(operand.shape) * (int(bits) // 8 if bits else 1)


def overlapping(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Which pieces of memory must give way for none of the others to share any.

    Args:
        ranges: the address of each, and how many bytes it has.

    Returns:
        Their indices, by address: those that begin before one that lies before them ends.
    """
    found = []
    reached = 0
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i]):
        begin, length = ranges[i]
        if length and begin < reached:
            found.append(i)
        reached = max(reached, begin + length)
    return found


def elements_meet(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether several elements of a tensor are one in memory.

    Also true of many elements with strides that no slice, transposition or split has, by which they
    may be.

    Args:
        shape: in elements.
        strides: in whatever unit an element has one of.
    """
    reached = 1  # by the elements along all shorter strides
    sizes = zip((abs(stride) for stride in strides), shape, strict=True)
    dimensions = [each for each in sizes if each[1] > 1]
    for stride, size in sorted(dimensions):
        if stride < reached:
            return stride == 0 or _places_meet(dimensions)
        reached += stride * (size - 1)
    return False


def _places_meet(dimensions: Sequence[tuple[int, int]]) -> bool:
    """Whether elements with these strides, of so many along each, lie in one place."""
    count = math.prod(size for _, size in dimensions)
    if not 0 < count <= _MOST_PLACES:
        return count > 0
    places = {0}
    for stride, size in dimensions:
        places = {place + i * stride for place in places for i in range(size)}
    return len(places) < count


@dataclass(frozen=True)
class Piece:
    """Memory of a tensor, whose elements need not lie beside each other.

    Attributes:
        address: of its first byte.
        dimensions: size of each and its stride in bytes, the largest stride first.
    """

    address: int
    dimensions: tuple[tuple[int, int], ...]

    @property
    def end(self) -> int:
        """The address after its last byte; its own where it has none."""
        if any(size == 0 for size, _ in self.dimensions):
            return self.address
        return self.address + 1 + sum((size - 1) * stride for size, stride in self.dimensions)


def piece_of(address: int, shape: Sequence[int], strides: Sequence[int], item: int) -> Piece:
    """Describes a tensor's memory.

    Args:
        address: of its first element.
        shape: in elements.
        strides: likewise, 0 or more each.
        item: bytes of an element.
    """
    if 0 in shape:
        return Piece(address, ((0, 1),))
    dimensions = [(item, 1)]
    for stride, size in sorted(zip(strides, shape, strict=True)):
        inner, apart = dimensions[-1], stride * item
        if apart == inner[0] * inner[1]:  # they lie beside each other
            dimensions[-1] = (inner[0] * size, inner[1])
        elif size > 1 and apart > 0:
            dimensions.append((size, apart))
    return Piece(address, tuple(reversed(dimensions)))


def share_bytes(one: Piece, other: Piece) -> bool:
    """Whether a byte belongs to both; also where that takes too long to find out."""
    # By how many of each stride a byte of one may lie beyond one of the other.
    steps: dict[int, tuple[int, int]] = {}
    for size, stride in one.dimensions:
        low, high = steps.get(stride, (0, 0))
        steps[stride] = low, high + size - 1
    for size, stride in other.dimensions:
        low, high = steps.get(stride, (0, 0))
        steps[stride] = low - size + 1, high
    strides = sorted(steps, reverse=True)
    tries = itertools.count()

    def reach(distance: int, place: int) -> bool:
        stride, (low, high) = strides[place], steps[strides[place]]
        if place == len(strides) - 1:
            return distance % stride == 0 and low <= distance // stride <= high
        inner = [(steps[each], each) for each in strides[place + 1 :]]
        least = sum(bounds[0] * each for bounds, each in inner)
        most = sum(bounds[1] * each for bounds, each in inner)
        first = max(low, -((most - distance) // stride))
        last = min(high, (distance - least) // stride)
        return any(
            next(tries) >= _MOST_TRIES or reach(distance - taken * stride, place + 1)
            for taken in range(first, last + 1)
        )

    return reach(other.address - one.address, 0)


def sharing(pieces: Sequence[Piece]) -> set[int]:
    """Which pieces of memory have bytes in common with another one.

    Returns:
        Their indices.
    """
    same: dict[Piece, list[int]] = {}
    for i, piece in enumerate(pieces):
        same.setdefault(piece, []).append(i)
    different = list(same)
    found = {i for position in _sharing(different) for i in same[different[position]]}
    for piece, indices in same.items():
        if len(indices) > 1 and piece.end > piece.address:
            found.update(indices)
    return found


def _sharing(pieces: Sequence[Piece]) -> set[int]:
    found: set[int] = set()
    near: list[_Rows] = []  # those seen that may reach so far
    rows = [each for each in _in_rows(pieces) if each.whole.end > each.whole.address]
    for each in sorted(rows, key=lambda each: each.whole.address):
        found |= _sharing_within(each, pieces)
        near = [other for other in near if other.whole.end > each.whole.address]
        for other in near:
            if found.issuperset(each.members) and found.issuperset(other.members):
                continue
            if share_bytes(other.whole, each.whole):
                found |= _sharing_across(other.members, each.members, pieces)
        near.append(each)
    return found


@dataclass(frozen=True)
class _Rows:
    """Pieces that have a part in each row of one array, as columns have, or one piece.

    Attributes:
        whole: what they lie in.
        members: their indices.
    """

    whole: Piece
    members: Sequence[int]


def _in_rows(pieces: Sequence[Piece]) -> Iterator[_Rows]:
    """Pieces put together, so that not each of them has to be compared with each other."""
    by_rows: dict[tuple[int, int], list[int]] = {}
    for i, piece in enumerate(pieces):
        if len(piece.dimensions) > 1:
            by_rows.setdefault(piece.dimensions[0], []).append(i)
        else:
            yield _Rows(piece, [i])
    for (size, stride), indices in by_rows.items():
        for members in _in_windows(indices, stride, pieces):
            begin = pieces[members[0]].address
            end = max(_first_row(pieces[i]).end for i in members)
            yield _Rows(Piece(begin, ((size, stride), (end - begin, 1))), members)


def _in_windows(
    indices: Sequence[int], stride: int, pieces: Sequence[Piece]
) -> Iterator[Sequence[int]]:
    """Those of which the first rows lie within one stride, together."""
    members: list[int] = []
    begin = end = 0
    for i in sorted(indices, key=lambda i: pieces[i].address):
        row = _first_row(pieces[i])
        if members and max(end, row.end) > begin + stride:
            yield members
            members = []
        begin, end = (begin, max(end, row.end)) if members else (row.address, row.end)
        members.append(i)
    yield members


def _first_row(piece: Piece) -> Piece:
    return Piece(piece.address, piece.dimensions[1:])


def _sharing_within(rows: _Rows, pieces: Sequence[Piece]) -> set[int]:
    if len(rows.members) == 1:
        return set()
    # Of pieces that differ, the first rows may be one.
    shared = sharing([_first_row(pieces[i]) for i in rows.members])
    return {rows.members[position] for position in shared}


def _sharing_across(
    some: Sequence[int], others: Sequence[int], pieces: Sequence[Piece]
) -> set[int]:
    found: set[int] = set()
    for i, j in itertools.product(some, others):
        if not {i, j} <= found and share_bytes(pieces[i], pieces[j]):
            found |= {i, j}
    return found
