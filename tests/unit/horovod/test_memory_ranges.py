"""Which pieces of memory share some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod._memory_ranges import overlapping, sharing

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


PIECES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 12)), max_size=12)


@given(PIECES)
def test_pieces_that_share_memory_with_any_other(ranges: Ranges) -> None:
    bytes_of = [set(range(begin, begin + length)) for begin, length in ranges]
    assert sharing(ranges) == {
        i
        for i, own in enumerate(bytes_of)
        if any(own & other for j, other in enumerate(bytes_of) if j != i)
    }
