"""Where pieces of memory lie, and which of them share some."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from horovod._operations import Operand

_MOST_TRIES = 10_000  # to find out whether two pieces meet: milliseconds


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
    found: set[int] = set()
    near: list[int] = []  # those seen that may reach so far
    ends = [piece.end for piece in pieces]
    for i in sorted(range(len(pieces)), key=lambda i: pieces[i].address):
        piece = pieces[i]
        if ends[i] == piece.address:
            continue
        near = [other for other in near if ends[other] > piece.address]
        for other in near:
            if not {i, other} <= found and share_bytes(pieces[other], piece):
                found |= {i, other}
        near.append(i)
    return found
