"""The launcher of elastic jobs: what workers are told, with neither hosts nor workers."""

import contextlib
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from horovod.runner.elastic import job as elastic_job
from horovod.runner.elastic.late_workers import LateWorkers
from horovod.runner.elastic.messages import News, Place, Ready
from horovod.runner.hosts import HostInfo, get_host_assignments
from horovod.runner.job import Job, make_output
from horovod.runner.network import NetworkError
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.ssh_options import SshOptions

SECRET = b"s" * 32
PATIENCE = 60.0  # seconds until a test that hangs is given up


@dataclass
class Names:
    """The hosts that have names, and this host's address towards each."""

    known: dict[str, str]

    def choose(
        self, hosts: Sequence[str], _interfaces: Sequence[str], *, any_name: bool
    ) -> list[str]:
        assert not any_name
        if missing := [host for host in hosts if host not in self.known]:
            raise NetworkError(f"no way to host {missing[0]!r}: Name or service not known")
        return [self.known[host] for host in hosts] or ["127.0.0.1"]


@dataclass
class NoWorkers:
    """Workers that nobody starts."""

    settings: Mapping[str, str]
    ended: list[int] = field(default_factory=list)
    stopped: int = 0
    gone: bool = False

    def start(self) -> None:
        """Starts nothing."""

    def stop(self) -> None:
        self.stopped += 1

    def stop_one(self, worker: int) -> None:
        self.ended.append(worker)

    def kill(self) -> None:
        """Ends nothing."""


@dataclass
class Stage:
    """A launcher, what it knows of the network, and the store into which it puts places."""

    folder: Path
    launcher: elastic_job._Launcher
    names: Names
    store: RendezvousServer
    started: list[NoWorkers]

    def launch(self, host: str, worker: int) -> None:
        places = get_host_assignments([HostInfo(host, worker + 1)], worker + 1)
        self.launcher.launch(host, {worker: places[worker]})
        group = self.launcher._group_of[worker]
        assert isinstance(group, LateWorkers)
        assert group._started.wait(PATIENCE)

    def told(self, worker: int, attempt: int, host: str = "any") -> str:
        place = get_host_assignments([HostInfo(host, 1)], 1)[0]
        self.launcher.answer(worker, attempt, Place(1, place.environment()))
        value = self.store.find(Place.key(worker, attempt))
        assert value is not None
        return Place.decode(value).environment["HOROVOD_GLOO_RENDEZVOUS_ADDR"]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stage]:
    started: list[NoWorkers] = []

    def make_workers(_job: Job, _host: str, settings: Mapping[str, str], *_: object) -> NoWorkers:
        started.append(NoWorkers(settings))
        return started[-1]

    names = Names({"host1": "10.1.0.1", "host2": "10.2.0.1"})
    monkeypatch.setattr(elastic_job, "make_workers", make_workers)
    monkeypatch.setattr(elastic_job, "choose_addresses", names.choose)
    job = Job(["true"], [], {}, tmp_path, SshOptions(None, None), output_directory=tmp_path / "out")
    with (
        contextlib.closing(make_output(job, 2, lambda _: None)) as output,
        contextlib.closing(RendezvousServer(SECRET, "127.0.0.1", lambda *_: None)) as store,
    ):
        launcher = elastic_job._Launcher(job, SECRET, store, output, queue.SimpleQueue())
        yield Stage(tmp_path / "out", launcher, names, store, started)


def test_workers_are_told_all_addresses_of_the_hosts_in_use(stage: Stage) -> None:
    stage.launch("host1", 0)
    stage.launch("host2", 1)
    assert [workers.settings["HOROVOD_GLOO_RENDEZVOUS_ADDR"] for workers in stage.started] == [
        "10.1.0.1",
        "10.2.0.1",
    ]
    stage.launcher.gather(["host1", "host2"])
    assert stage.told(0, 0, "host1") == "10.1.0.1,10.2.0.1"
    assert stage.told(1, 0, "host2") == "10.2.0.1,10.1.0.1"  # that on its own way first
    stage.names.known.clear()  # and yet the job goes on
    stage.launcher.gather(["host2"])
    assert stage.told(1, 1) == "10.2.0.1"


def test_workers_of_this_host_are_told_its_loopback_address(stage: Stage) -> None:
    stage.launch("localhost", 0)
    stage.launcher.gather(["localhost"])
    assert stage.told(0, 0) == "127.0.0.1"
    stage.launch("host1", 1)
    stage.launcher.gather(["localhost", "host1"])
    assert stage.told(0, 1, "localhost") == "10.1.0.1"


def test_a_rank_whose_output_cannot_be_kept_runs_all_the_same(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    (stage.folder / "rank.2").write_text("in the way")
    stage.launch("host1", 2)
    assert len(stage.started) == 1
    assert "no copy of rank 2's output: cannot keep the output in " in capsys.readouterr().err


def test_news_are_later_than_those_before_though_the_clock_is_set_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.launcher.announce(1, 1)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    stage.launcher.announce(1, 2)
    stage.launcher.announce_loss(1, "lost")
    news = [stage.store.find(News.key(number)) for number in range(3)]
    stamps = [News.decode(each).timestamp for each in news if each is not None]
    assert sorted(set(stamps)) == stamps
    assert len(stamps) == 3


def test_nothing_is_kept_of_workers_that_have_ended(stage: Stage) -> None:
    for worker in range(9):
        stage.launch("host1", worker)
        stage.told(worker, 0)
        stage.told(worker, 1)
        assert stage.store.find(Place.key(worker, 0)) is None
        stage.store.put(*Ready(worker, 1).encode())
        if worker > 0:  # the first one trains on
            stage.started[worker].gone = True
            stage.launcher.forget(worker)
            assert stage.store.find(Place.key(worker, 1)) is None
            assert stage.store.find(Ready.key(worker)) is None
    first, *_, last = stage.started
    left = [getattr(group, "_made") for group in stage.launcher.groups()]  # noqa: B009 - not the protocol's
    assert left == [first, last]  # that of the last is dropped by the next
    assert len(stage.launcher._group_of) == 2
    assert stage.store.find(Place.key(0, 1)) is not None
    stage.launcher.end_worker(1)
    stage.launcher.end_worker(0)
    stage.launcher.end_host("host1")
    stage.launcher.wait_for_ends()
    assert [group.ended for group in stage.started] == [[0], *([[]] * 8)]
    assert [group.stopped for group in stage.started] == [1, *([0] * 7), 1]


def test_nothing_is_kept_of_what_has_ended_workers(stage: Stage) -> None:
    stage.launch("host1", 0)
    for _ in range(9):
        stage.launcher.end_worker(0)
        stage.launcher.wait_for_ends()
    assert stage.started[0].ended == [0] * 9
    assert len(stage.launcher._enders._threads) == 1


def test_a_host_all_of_whose_workers_have_ended_may_be_ended(stage: Stage) -> None:
    stage.launch("host1", 0)
    stage.started[0].gone = True
    stage.launch("host2", 1)
    stage.launcher.end_host("host1")
    stage.launcher.end_all(kill=False)
    stage.launcher.wait_for_ends()
    assert [group.stopped for group in stage.started] == [0, 1]
