"""What the ranks of an MPI job name as process sets, joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod._communicator_sets import Named, duplicate, merge, resolve
from horovod.common.exceptions import HorovodInternalError


def communicator(*members: int) -> tuple[bool, tuple[int, ...]]:
    return True, members


def listed(*ranks: int) -> tuple[bool, tuple[int, ...]]:
    return False, ranks


def test_sets_are_numbered_by_their_place_and_then_by_rank() -> None:
    even, odd = communicator(0, 2), communicator(1, 3)
    everybody = [Named(rank, (even if rank % 2 == 0 else odd, listed(0))) for rank in range(4)]
    assert merge(resolve(everybody)) == [(0, 2), (1, 3), (0,)]


def test_ranks_of_the_job_may_be_numbered_unlike_those_of_the_world() -> None:
    everybody = [Named(world, (communicator(3, 5),)) for world in (5, 3)] + [Named(None, ())]
    assert merge(resolve(everybody)) == [(0, 1)]


def test_a_member_that_names_nothing_is_told_of() -> None:
    with pytest.raises(ValueError, match="rank 1 of it is not in this job, or has named no"):
        resolve([Named(0, (communicator(0, 1),)), Named(None, ()), Named(2, ())])


@pytest.mark.parametrize(
    "second",
    [communicator(0, 1), communicator(0, 1, 2), listed(0, 1)],
    ids=["twice", "all", "list"],
)
def test_the_same_members_cannot_be_named_twice(second: tuple[bool, tuple[int, ...]]) -> None:
    lists = (second,) if second == listed(0, 1) else ()
    everybody = [Named(rank, (communicator(0, 1), second)) for rank in (0, 1)]
    resolved = resolve([*everybody, Named(2, lists)])
    assert "containing the same ranks already exists" in duplicate(resolved)
    assert merge(resolved) == [(0, 1)]


def test_lists_of_ranks_are_named_alike() -> None:
    with pytest.raises(
        HorovodInternalError,
        match=r"mismatching values .*: rank 0 named \[\[0\]\], and rank 1 \[\]\.",
    ):
        resolve([Named(None, (listed(0),)), Named(None, ())])


@given(st.permutations(range(6)), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_whatever_a_split_gives_has_one_number_for_all(
    worlds: list[int], colors: list[int]
) -> None:
    def members(color: int) -> tuple[int, ...]:
        return tuple(sorted(world for world, c in zip(worlds, colors, strict=True) if c == color))

    everybody = [
        Named(world, (communicator(*members(color)),))
        for world, color in zip(worlds, colors, strict=True)
    ]
    if len(set(colors)) == 1:
        assert "already exists" in duplicate(resolve(everybody))
        assert merge(resolve(everybody)) == []
        return
    assert not duplicate(resolve(everybody))
    expected = {
        tuple(rank for rank, c in enumerate(colors) if c == color): None for color in colors
    }
    assert merge(resolve(everybody)) == list(expected)
    for (ranks,), color in zip(resolve(everybody), colors, strict=True):
        assert ranks in expected
        assert all(colors[rank] == color for rank in ranks)
