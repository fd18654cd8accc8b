"""Seating, discovery, the blacklist, messages and the client of the store, each on its own."""

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collective.launching import is_running, wait_until_gone
from horovod.runner.elastic import discovery
from horovod.runner.elastic.blacklist import Blacklist
from horovod.runner.elastic.discovery import (
    DiscoveryError,
    FixedHosts,
    ForgivingDiscovery,
    HostDiscoveryScript,
    parse_discovered,
)
from horovod.runner.elastic.messages import News, Place, Ready
from horovod.runner.elastic.seating import Seat, assign, make_plan
from horovod.runner.hosts import parse_hosts
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.store_client import StoreClient, StoreError
from horovod.runner.store_messages import MAX_VALUE

HOSTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4), min_size=1)


@st.composite
def seatings(draw: st.DrawFn) -> list[Seat]:
    """Workers with the ranks that a former round gave them, and newcomers."""
    before = make_plan(draw(HOSTS), [], None)
    seats: list[Seat] = []
    for host, count in before.hosts.items():
        seats += [
            Seat(len(seats) + i, host, len(seats) + i, i, draw(st.integers(1, 3)))
            for i in range(count)
        ]
    alive = [seat for seat in seats if draw(st.booleans())]
    return alive + [
        Seat(100 + i, host)
        for i, host in enumerate(draw(st.lists(st.sampled_from("abcd"), max_size=4)))
    ]


@given(HOSTS, seatings(), st.none() | st.integers(1, 9))
def test_seats(usable: Mapping[str, int], present: list[Seat], limit: int | None) -> None:
    plan = make_plan(usable, present, limit)
    available = sum(usable.values())
    assert plan.lasting == (available if limit is None else min(available, limit))
    with_state = {seat.host for seat in present if seat.since}
    assert plan.guests == (1 if with_state and not with_state & set(usable) else 0)
    assert any(seat.since for seat in plan.seats) == bool(with_state)
    hosts = list(plan.hosts.items())
    assert all(count <= usable[host] for host, count in hosts[plan.guests :])
    assert all(count == 1 and host not in usable for host, count in hosts[: plan.guests])
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
    since = {seat.worker: seat.since for seat in kept if seat.since is not None}
    if since:
        rank_0 = next(worker for worker, place in places.items() if place.rank == 0)
        assert since[rank_0] == min(since.values())


@given(HOSTS, seatings(), st.none() | st.integers(1, 9))
def test_seats_of_a_round_without_newcomers(
    usable: Mapping[str, int], present: list[Seat], limit: int | None
) -> None:
    full = make_plan(usable, present, limit)
    absent = [seat.worker for seat in full.seats if seat.since is None and seat.worker % 2]
    plan = full.without(absent)
    places = assign(plan)
    assert places.keys() == {seat.worker for seat in full.seats} - set(absent)
    assert sorted(place.rank for place in places.values()) == list(range(plan.size))
    assert all(place.size == plan.size for place in places.values())
    assert plan.hosts == {
        host: sum(place.hostname == host for place in places.values()) for host in plan.hosts
    }
    since = {seat.worker: seat.since for seat in plan.seats if seat.since is not None}
    if since:
        rank_0 = next(worker for worker, place in places.items() if place.rank == 0)
        assert since[rank_0] == min(since.values())


def test_local_ranks_stay_where_they_can() -> None:
    present = [Seat(0, "a", 0, 0, 1), Seat(2, "a", 2, 2, 1), Seat(3, "a", 3, 3, 1)]
    places = assign(make_plan({"a": 3}, present, None))
    assert {worker: place.local_rank for worker, place in places.items()} == {0: 0, 2: 2, 3: 1}
    present = [Seat(1, "a", 1, 1, 1), Seat(2, "a", 0, 0, 1), Seat(3, "a", 2, 2, 2)]
    places = assign(make_plan({"a": 3}, present, None))
    assert {worker: place.local_rank for worker, place in places.items()} == {1: 1, 2: 0, 3: 2}


def test_discovery() -> None:
    assert parse_discovered("a:2\n\n# none\nb : 3".replace(" : ", ":"), None) == {"a": 2, "b": 3}
    assert parse_discovered("a\nb:2\nc:0\na:1\nb:0\n", 4) == {"a": 1}  # the last line counts
    assert FixedHosts({"a": 1}).find_available_hosts_and_slots() == {"a": 1}
    assert HostDiscoveryScript("echo x:2").find_available_hosts_and_slots() == {"x": 2}
    for text, slots, complaint in (("a b", 1, "<host>:<slots>`$"), ("a", None, "--slots-per-host")):
        with pytest.raises(DiscoveryError, match=complaint):
            parse_discovered(text, slots)
    with pytest.raises(DiscoveryError, match="ended with code 3: oh"):
        HostDiscoveryScript("echo oh >&2; exit 3").find_available_hosts_and_slots()
    with pytest.raises(DiscoveryError, match=r"ended with code 3 and wrote nothing to stderr$"):
        HostDiscoveryScript("exit 3").find_available_hosts_and_slots()


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9][\w.-]{0,9}", fullmatch=True)
        | st.ip_addresses().map(lambda a: f"[{a}]" if a.version == 6 else str(a)),
        st.integers(1, 999_999_999),
        min_size=1,
    )
)
def test_a_discovery_script_names_hosts_as_a_list_of_hosts_does(hosts: dict[str, int]) -> None:
    entries = [f"{host}:{slots}" for host, slots in hosts.items()]
    listed = {host.hostname: host.slots for host in parse_hosts(",".join(entries))}
    assert parse_discovered("\n".join(entries), None) == listed
    assert list(parse_discovered("\n".join(hosts), 3)) == list(listed)


def test_a_discovery_script_may_print_any_bytes() -> None:
    script = HostDiscoveryScript(r"printf 'h\351\n' >&2; printf 'x:2 # h\351\n'")
    assert script.find_available_hosts_and_slots() == {"x": 2}
    with pytest.raises(DiscoveryError, match=r"ended with code 3: h\\xe9"):
        HostDiscoveryScript(r"printf 'h\351' >&2; exit 3").find_available_hosts_and_slots()
    with pytest.raises(DiscoveryError, match=r"printed 'h\\\\xe9:2', which is not of the form"):
        HostDiscoveryScript(r"printf 'h\351:2\n'").find_available_hosts_and_slots()


def test_a_discovery_script_that_prints_without_end_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "_SCRIPT_SECONDS", 2.0)
    with pytest.raises(DiscoveryError, match="yes x:2 printed more than 1048576 bytes"):
        HostDiscoveryScript("yes x:2").find_available_hosts_and_slots()
    # What it complains of is not looked at while it succeeds.
    script = HostDiscoveryScript("yes oh | head -c 3000000 >&2; echo x:2")
    assert script.find_available_hosts_and_slots() == {"x": 2}


def test_a_discovery_script_that_leaves_its_output_open_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    monkeypatch.setattr(discovery, "_SCRIPT_SECONDS", 1.0)
    # Opened for reading and writing, which waits for nobody.
    descriptor = os.open(fifo, os.O_RDWR)
    script = HostDiscoveryScript(f"echo x:2; sleep 600 3>{fifo} &")
    start = script._start

    def start_and_await_end() -> "subprocess.Popen[bytes]":
        shell = start()
        os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)
        return shell

    monkeypatch.setattr(script, "_start", start_and_await_end)
    with pytest.raises(DiscoveryError, match="has ended, but what it has started still held its"):
        script.find_available_hosts_and_slots()
    reader = os.open(fifo, os.O_RDONLY)
    os.close(descriptor)
    assert os.read(reader, 1) == b""  # nobody has it any more
    os.close(reader)


class MoodyHosts:
    """A discovery of a user's that fails now and then."""

    fixed = False

    def __init__(self) -> None:
        self.answers: list[Exception | dict[str, int]] = []
        self.stopped = False

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        self.stopped = True


def test_an_unexpected_exception_is_no_answer_this_time() -> None:
    moody = MoodyHosts()
    hosts = ForgivingDiscovery(moody)
    assert not hosts.fixed
    moody.answers = [{"a": 1}, LookupError("no such cloud"), DiscoveryError("later"), {"a": 2}]
    assert hosts.find_available_hosts_and_slots() == {"a": 1}
    with pytest.raises(DiscoveryError) as caught:
        hosts.find_available_hosts_and_slots()
    said = str(caught.value)
    assert said.startswith("looking for hosts has failed\nTraceback ")
    assert "raise answer\nLookupError: no such cloud" in said
    with pytest.raises(DiscoveryError, match=r"\Alater\Z"):
        hosts.find_available_hosts_and_slots()
    assert hosts.find_available_hosts_and_slots() == {"a": 2}
    hosts.stop()
    assert moody.stopped


# Says the number of the script when the guardian knows it.
LOOKS = """
from horovod.runner.elastic.discovery import HostDiscoveryScript
from horovod.runner.processes import Guardian
note = Guardian.note
def note_and_say(guardian, sign, session):
    note(guardian, sign, session)
    print(session, flush=True)
Guardian.note = note_and_say
HostDiscoveryScript("exec sleep 600", guarded=True).find_available_hosts_and_slots()
"""


def test_a_discovery_script_ends_when_who_looks_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", LOOKS], stdout=subprocess.PIPE) as looking:
        assert looking.stdout is not None
        script = int(looking.stdout.readline())
        assert is_running(script)
        looking.kill()
        wait_until_gone(script)


@pytest.mark.parametrize("fails", [False, True])
def test_the_guardian_of_a_discovery_script_ends_with_the_job(*, fails: bool) -> None:
    script = HostDiscoveryScript("exit 3" if fails else "echo x:2", guarded=True)
    for _ in range(2):
        with pytest.raises(DiscoveryError) if fails else contextlib.nullcontext():
            assert script.find_available_hosts_and_slots() == {"x": 2}
    guardian = script._guardian
    assert guardian is not None
    assert guardian._process.poll() is None
    script.stop()
    assert guardian._process.returncode == 0


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_discovery_script_ends_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stopped: bool, guarded: bool
) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    script = HostDiscoveryScript(f"sleep 600 >{fifo} & wait", guarded=guarded)
    monkeypatch.setattr(discovery, "_SCRIPT_SECONDS", 600.0 if stopped else 1.0)
    complaints: queue.SimpleQueue[str] = queue.SimpleQueue()
    start, opened = script._start, threading.Event()

    def start_and_await_child() -> "subprocess.Popen[bytes]":
        shell = start()
        opened.wait(60)
        return shell

    monkeypatch.setattr(script, "_start", start_and_await_child)

    def look() -> None:
        try:
            script.find_available_hosts_and_slots()
        except DiscoveryError as error:
            complaints.put(str(error))

    thread = threading.Thread(target=look)
    thread.start()
    descriptor = os.open(fifo, os.O_RDONLY)  # returns when the script's child has opened it
    opened.set()
    if stopped:
        script.stop()
    complaint = complaints.get(timeout=60)
    assert ("ended with code -9" if stopped else "did not end within 1 seconds") in complaint
    assert os.read(descriptor, 1) == b""  # nobody has it any more
    os.close(descriptor)
    thread.join()
    if stopped:
        with pytest.raises(DiscoveryError, match="nobody asks any more"):
            script.find_available_hosts_and_slots()
    script.stop()


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
    assert Ready.decode(*Ready(3, 4, "n\u00f3").encode()) == Ready(3, 4, "n\u00f3")
    known = Ready(3, 4, synchronised=True)
    assert Ready.decode(*known.encode()) == known
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
    with pytest.raises(StoreError, match="no connection to the job's launcher"):
        StoreClient(address, secret)
