"""Lists of ranks: what is read, what is refused, and the places that they give."""

import dataclasses
import queue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod._chosen_ranks import choose, meeting_of, place, read_ranks
from horovod._placement import Placement, read_placement
from horovod._timeline import file_of
from horovod.runner.job import NEVER_JOINED, Ended, Events, Joined, Supervision
from horovod.runner.rendezvous import joined, read_joined


def placed(rank: int) -> Placement:
    return dataclasses.replace(read_placement({}), rank=rank, size=8)


def test_lists_are_read_and_held_against_the_job() -> None:
    assert read_ranks([]) == ()
    assert read_ranks(range(2, 4)) == (2, 3)
    assert choose((2, 0), 2, 3) == (2, 0)
    assert choose((0, 1, 2), 1, 3) == ()  # the whole job as it is
    assert choose((0, 2, 1), 1, 3) == (0, 2, 1)  # numbered otherwise
    assert choose((), 1, 3) == ()
    with pytest.raises(ValueError, match="-1 is negative"):
        read_ranks([0, -1])
    assert meeting_of((1, 2)) != meeting_of((1, 3)) != meeting_of((12,))


@given(st.lists(st.sampled_from("abc"), min_size=8, max_size=8), st.permutations(range(8)))
def test_places_number_the_ranks_of_each_host_and_the_hosts_of_each_local_rank(
    hosts: list[str], order: list[int]
) -> None:
    ranks = tuple(order[:5])
    chosen = [hosts[rank] for rank in ranks]
    places = [place(placed(rank), ranks, chosen) for rank in ranks]
    assert [p.rank for p in places] == list(range(5))
    assert {p.size for p in places} == {5}
    assert {p.meeting for p in places} == {meeting_of(ranks)}
    for host in set(chosen):
        mine = [p for p, at in zip(places, chosen, strict=True) if at == host]
        assert [p.local_rank for p in mine] == list(range(len(mine)))
        assert {p.local_size for p in mine} == {len(mine)}
    for local in {p.local_rank for p in places}:
        alike = [p for p in places if p.local_rank == local]
        assert [p.cross_rank for p in alike] == list(range(len(alike)))
        assert {p.cross_size for p in alike} == {len(alike)}


def test_the_launcher_knows_who_waits_for_whom() -> None:
    assert read_joined(*joined(3, (3, 12))) == (3, frozenset({3, 12}))
    assert read_joined(*joined(3)) == (3, frozenset())
    assert read_joined(b"g0/coordinator", b"") is None

    def outcome(*told: Joined | Ended) -> tuple[int, Ended | None]:
        events: Events = queue.SimpleQueue()
        for event in told:
            events.put(event)
        supervision = Supervision([], events, {0, 1, 2})
        return supervision.wait(), supervision.failure

    ends = (Ended(2, 0), Ended(0, 0), Ended(1, 0))
    pair = frozenset({0, 1})
    assert outcome(Joined(0, pair), Joined(1, pair), *ends) == (0, None)
    for waited in (frozenset[int](), frozenset({0, 2})):
        missing = Ended(2, NEVER_JOINED)
        assert outcome(Joined(0, waited), Joined(1, pair), *ends) == (NEVER_JOINED, missing)


def test_ranks_0_of_several_jobs_write_different_files() -> None:
    assert file_of("/t/trace.json", 0, 1, 2) == "/t/trace.from2.1.json"
    assert file_of("/t/trace.json", 1, 0, 2) == "/t/trace.from2.rank1.json"
