"""Which pieces of memory share some."""

import itertools
import operator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod._memory_ranges import elements_meet, overlapping, piece_of, share_bytes, sharing

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


SHAPES = st.lists(st.integers(0, 4), max_size=3)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[int, list[int], list[int], int]:
    shape = draw(SHAPES)
    strides = draw(st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape)))
    return draw(st.integers(1, 60)), shape, strides, draw(st.sampled_from([1, 2, 4]))


def bytes_at(address: int, shape: list[int], strides: list[int], item: int) -> set[int]:
    elements = [
        address + item * sum(map(operator.mul, place, strides))
        for place in itertools.product(*map(range, shape))
    ]
    return {element + byte for element in elements for byte in range(item)}


@st.composite
def blocks(draw: st.DrawFn) -> tuple[int, list[int], list[int], int]:
    """Part of an array of 4 x 5 x 6 elements."""
    begins = [draw(st.integers(0, most - 1)) for most in (4, 5, 6)]
    shape = [draw(st.integers(1, most - at)) for most, at in zip((4, 5, 6), begins, strict=True)]
    strides = [30, 6, 1]
    address = 7 + 2 * sum(map(operator.mul, begins, strides))
    order = draw(st.permutations(range(3)))
    return address, [shape[i] for i in order], [strides[i] for i in order], 2


@given(st.lists(st.one_of(tensors(), blocks()), max_size=6) | st.lists(blocks(), max_size=9))
def test_tensors_that_share_memory_with_any_other(
    drawn: list[tuple[int, list[int], list[int], int]],
) -> None:
    held = [bytes_at(*tensor) for tensor in drawn]
    assert sharing([piece_of(*tensor) for tensor in drawn]) == {
        i
        for i, own in enumerate(held)
        if any(own & other for j, other in enumerate(held) if j != i)
    }


@pytest.mark.parametrize("shape", [[8], [8, 2]])
def test_pieces_that_are_one_are_not_compared_each_with_each(
    monkeypatch: pytest.MonkeyPatch, shape: list[int]
) -> None:
    compare = mock.Mock(side_effect=share_bytes)
    monkeypatch.setattr("horovod._memory_ranges.share_bytes", compare)
    strides = [5, 1][: len(shape)]
    one = [piece_of(100, shape, strides, 4)] * 300
    others = [piece_of(104 + 4 * (i % 2), shape, strides, 4) for i in range(300)]
    assert sharing([*one, *others]) == set(range(600))
    assert compare.call_count < 10


@given(tensors())
def test_a_piece_ends_after_its_last_byte(
    drawn: tuple[int, list[int], list[int], int],
) -> None:
    held = bytes_at(*drawn)
    assert piece_of(*drawn).end == (max(held) + 1 if held else drawn[0])


def test_pieces_of_many_dimensions_are_taken_for_sharing_after_a_while() -> None:
    # Even addresses, and an odd one in their midst, by strides that say nothing of it soon.
    strides = [2 * (1000 + step) for step in range(12)]
    wide = piece_of(0, [50] * 12, strides, 1)
    assert sharing([wide, piece_of(400_001, [], [], 1)]) == {0, 1}


@pytest.mark.parametrize(("rows", "columns"), [(10**6, 10**3), (10**9, 3)])
def test_columns_of_one_buffer_share_nothing(rows: int, columns: int) -> None:
    pieces = [piece_of(64 + 4 * i, [rows], [columns], 4) for i in range(columns)]
    assert sharing(pieces) == set()
    assert sharing([*pieces[:2], piece_of(68, [rows, 1], [columns, 7], 4)]) == {1, 2}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-12, 12)), max_size=4))
def test_elements_that_are_one(dimensions: list[tuple[int, int]]) -> None:
    shape = [size for size, _ in dimensions]
    strides = [stride for _, stride in dimensions]
    places = [
        sum(map(operator.mul, index, strides)) for index in itertools.product(*map(range, shape))
    ]
    if places:
        assert elements_meet(shape, strides) == (len(set(places)) < len(places))


def test_many_elements_with_odd_strides_are_taken_for_one() -> None:
    assert elements_meet([200, 200], [201, 200])
    assert not elements_meet([200, 200], [200, 1])
