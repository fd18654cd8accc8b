"""Where pieces of memory lie, and which of them share some."""

import math
from collections.abc import Sequence

from horovod._operations import Operand


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


def sharing(ranges: Sequence[tuple[int, int]]) -> set[int]:
    """Which pieces of memory share some with another one.

    Args:
        ranges: as above.

    Returns:
        Their indices.
    """
    found = set()
    furthest, reached = -1, 0  # the piece that reaches furthest of those seen, and to where
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i]):
        begin, length = ranges[i]
        if not length:
            continue
        if begin < reached:
            found |= {i, furthest}
        if begin + length > reached:
            furthest, reached = i, begin + length
    return found
