"""Which pieces of memory share some."""

import pytest

from horovod._memory_ranges import overlapping

Ranges = list[tuple[int, int]]


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(100, 8), (108, 8), (92, 8)], []),  # they adjoin
        ([(100, 8), (100, 8), (100, 8)], [1, 2]),
        ([(104, 8), (100, 8)], [0]),  # the later one in memory, not in the list
        ([(100, 8), (104, 8), (108, 8)], [1, 2]),  # what begins in one that gives way
        ([(100, 50), (110, 2), (120, 2), (150, 2)], [1, 2]),
        ([(100, 8), (104, 0), (100, 0), (0, 0)], []),  # of no bytes
    ],
)
def test_pieces_that_share_memory(ranges: Ranges, expected: list[int]) -> None:
    assert overlapping(ranges) == expected
