"""Seating, discovery, the blacklist, messages and the client of the store, each on its own."""

import contextlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod.runner.elastic.blacklist import Blacklist
from horovod.runner.elastic.discovery import (
    DiscoveryError,
    FixedHosts,
    HostDiscoveryScript,
    parse_discovered,
)
from horovod.runner.elastic.messages import News, Place, Ready
from horovod.runner.elastic.seating import Seat, assign, make_plan
from horovod.runner.rendezvous import MAX_VALUE, RendezvousServer
from horovod.runner.store_client import StoreClient, StoreError

HOSTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4), min_size=1)


@st.composite
def seatings(draw: st.DrawFn) -> list[Seat]:
    """Workers with the ranks that a former round gave them, and newcomers."""
    before = make_plan(draw(HOSTS), [], None)
    seats: list[Seat] = []
    for host, count in before.hosts.items():
        seats += [Seat(len(seats) + i, host, len(seats) + i, i) for i in range(count)]
    alive = [seat for seat in seats if draw(st.booleans())]
    return alive + [
        Seat(100 + i, host)
        for i, host in enumerate(draw(st.lists(st.sampled_from("abcd"), max_size=4)))
    ]


@given(HOSTS, seatings(), st.none() | st.integers(1, 9))
def test_seats(usable: Mapping[str, int], present: list[Seat], limit: int | None) -> None:
    plan = make_plan(usable, present, limit)
    available = sum(usable.values())
    assert plan.size == (available if limit is None else min(available, limit))
    assert all(count <= usable[host] for host, count in plan.hosts.items())
    assert sum(plan.vacancies.values()) == plan.size - sum(map(len, plan.staying.values()))
    newcomers = [
        Seat(1000 + 10 * i + j, host)
        for i, (host, count) in enumerate(plan.vacancies.items())
        for j in range(count)
    ]
    full = make_plan(usable, [*present, *newcomers], limit)
    places = assign(full)
    assert sorted(place.rank for place in places.values()) == list(range(plan.size))
    assert len({(place.hostname, place.local_rank) for place in places.values()}) == plan.size
    kept = [seat for seat in present if seat.worker in places]
    assert all(places[seat.worker].hostname == seat.host for seat in kept)
    with_state = [seat.worker for seat in kept if seat.rank is not None]
    if with_state:
        rank_0 = next(worker for worker, place in places.items() if place.rank == 0)
        assert rank_0 in with_state


def test_local_ranks_stay_where_they_can() -> None:
    present = [Seat(0, "a", 0, 0), Seat(2, "a", 2, 2), Seat(3, "a", 3, 3)]
    places = assign(make_plan({"a": 3}, present, None))
    assert {worker: place.local_rank for worker, place in places.items()} == {0: 0, 2: 2, 3: 1}


def test_discovery() -> None:
    assert parse_discovered("a:2\n\n# none\nb : 3".replace(" : ", ":"), None) == {"a": 2, "b": 3}
    assert parse_discovered("a\nb:2\nc:0\na:1\nb:0\n", 4) == {"a": 1}  # the last line counts
    assert FixedHosts({"a": 1}).find_available_hosts_and_slots() == {"a": 1}
    assert HostDiscoveryScript("echo x:2").find_available_hosts_and_slots() == {"x": 2}
    for text, slots, complaint in (("a b", 1, "not of the form"), ("a", None, "--slots-per-host")):
        with pytest.raises(DiscoveryError, match=complaint):
            parse_discovered(text, slots)
    with pytest.raises(DiscoveryError, match="ended with code 3: oh"):
        HostDiscoveryScript("echo oh >&2; exit 3").find_available_hosts_and_slots()


def test_the_cooldown_doubles_up_to_its_limit() -> None:
    time = [0.0]
    blacklist = Blacklist((2.0, 5.0), lambda: time[0])
    for failure, delay in enumerate((2.0, 4.0, 5.0, 5.0)):
        blacklist.add("a")
        assert blacklist.usable({"a": 1, "b": 1}) == {"b": 1}, failure
        assert blacklist.next_return() == time[0] + delay
        time[0] += delay
        assert blacklist.usable({"a": 1, "b": 1}) == {"a": 1, "b": 1}
    blacklist.take_slot("b")
    assert blacklist.usable({"b": 2}) == {"b": 1}
    assert blacklist.next_return() == time[0] + 2.0
    time[0] += 2.0
    assert blacklist.usable({"b": 2}) == {"b": 2}
    for_good = Blacklist(None, lambda: time[0])
    for_good.add("a")
    for_good.take_slot("b")
    assert for_good.usable({"a": 1, "b": 2, "c": 1}) == {"b": 1, "c": 1}
    assert for_good.next_return() is None


def test_messages_survive_the_way() -> None:
    assert Ready.decode(*Ready(3, 4).encode()) == Ready(3, 4)
    assert Ready.decode(b"other/key", b"4") is None
    place = Place(2, {"HOROVOD_RANK": "1"})
    assert Place.decode(place.encode()) == place
    news = News(1, 2.5, 3)
    assert News.decode(news.encode()) == news


def test_the_client_of_the_store() -> None:
    seen: list[tuple[bytes, bytes]] = []
    secret = b"s" * 32
    with contextlib.closing(
        RendezvousServer(secret, "127.0.0.1", lambda key, value: seen.append((key, value)))
    ) as server:
        address = f"127.0.0.1:{server.port}"
        with contextlib.closing(StoreClient(address, secret)) as client:
            client.put(b"key", b"value")
            assert client.get(b"key", 1) == b"value"
            assert server.find(b"key") == b"value"
            assert client.get(b"other", 0) is None
            server.put(b"other", b"")
            assert client.get(b"other", 1) == b""
            assert seen == [(b"key", b"value")]
            with pytest.raises(StoreError, match="too many"):
                client.put(b"key", bytes(MAX_VALUE + 1))
        with pytest.raises(StoreError, match="hung up"):
            StoreClient(address, b"x" * 32)
    with pytest.raises(StoreError, match="no connection to the job's store"):
        StoreClient(address, secret)
