"""Runs an elastic job: real workers, the store they ask, and the clock, around the driver."""

import contextlib
import itertools
import queue
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from horovod import _settings
from horovod.runner.descriptors import allow_descriptors
from horovod.runner.elastic.blacklist import Blacklist
from horovod.runner.elastic.discovery import DiscoveryError, HostDiscovery
from horovod.runner.elastic.driver import Driver
from horovod.runner.elastic.late_workers import LateWorkers
from horovod.runner.elastic.limits import Limits
from horovod.runner.elastic.messages import News, Place, Ready
from horovod.runner.exchange import Exchange, NoExchange, describe_failure
from horovod.runner.hosts import SlotInfo, is_local
from horovod.runner.job import (
    BY_SIGNAL,
    SECRET_BYTES,
    Broken,
    Ended,
    Job,
    first_of,
    make_output,
    make_workers,
)
from horovod.runner.network import any_address, choose_addresses, loopback_address
from horovod.runner.output import Output, OutputError
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.signals import Signalled, signals_as_events
from horovod.runner.streams import say
from horovod.runner.threads import start_thread
from horovod.runner.workers import Enders, Workers, killed_on_error

DISCOVERY_SECONDS = 1.0  # between looks at the hosts, as in Horovod


@dataclass(frozen=True)
class ElasticJob:
    """What to run, and on how many ranks.

    Attributes:
        job: its `slots` are not looked at.
        cooldown: seconds that a host is left out after a failure, at first and at most; None for
            good.
    """

    job: Job
    discovery: HostDiscovery
    limits: Limits
    cooldown: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Found:
    hosts: Mapping[str, int]


@dataclass(frozen=True)
class _NotFound:
    reason: str


_Events = queue.SimpleQueue[Ended | Signalled | Ready | _Found | _NotFound | Broken]


class _Launcher:
    """Starts and ends real workers, and tells them what the driver decides."""

    def __init__(
        self, job: Job, secret: bytes, store: RendezvousServer, output: Output, events: _Events
    ) -> None:
        self._job = job
        self._secret = secret
        self._store = store
        self._output = output
        self._events = events
        self._hosts: dict[str, list[Workers]] = {}  # those started on each, group by group
        self._group_of: dict[int, Workers] = {}
        self._ways: dict[str, list[str]] = {}  # per host, at which addresses it reaches the store
        self._gathered: list[str] = []
        self._attempts: dict[int, int] = {}  # which of a worker's questions was answered last
        self._enders = Enders()
        self._news = 0
        self._last_stamp = 0.0  # of the news

    def now(self) -> float:
        return time.monotonic()

    def say(self, text: str) -> None:
        say(text)

    def launch(self, host: str, workers: Mapping[int, SlotInfo]) -> None:
        told = {
            number: {
                **place.environment(),
                _settings.ELASTIC.name: "1",
                _settings.ELASTIC_WORKER.name: str(number),
            }
            for number, place in workers.items()
        }
        for number, place in workers.items():
            self._assign(number, place.rank)
        self._drop_gone()

        def make() -> Workers:
            settings = self._job.worker_settings(self._way(host), self._store.port, self._secret)
            return make_workers(self._job, host, settings, told, self._output.write, self._on_exit)

        group = LateWorkers(
            told, make, self._on_exit, lambda error: self._events.put(Broken(error))
        )
        self._hosts.setdefault(host, []).append(group)
        self._group_of.update(dict.fromkeys(workers, group))
        group.start()

    def _drop_gone(self) -> None:
        """Forgets groups of which nothing is left: a job may see thousands of them."""
        for groups in self._hosts.values():
            groups[:] = [group for group in groups if not group.gone]
        left = {worker: group for worker, group in self._group_of.items() if not group.gone}
        self._group_of = left

    def forget(self, worker: int) -> None:
        """Drops what the store holds for a worker that has ended."""
        self._store.drop(Ready.key(worker))
        if (attempt := self._attempts.pop(worker, None)) is not None:
            self._store.drop(Place.key(worker, attempt))

    def end_host(self, host: str) -> None:
        self._enders.end(self._hosts[host], kill=False)

    def end_worker(self, worker: int) -> None:
        if worker in self._group_of:  # otherwise it has never run
            self._enders.end_one(self._group_of[worker], worker)

    def end_all(self, *, kill: bool) -> None:
        """Ends all workers."""
        self._enders.end(self.groups(), kill=kill)

    def groups(self) -> list[Workers]:
        """All workers that have been started."""
        return [group for groups in self._hosts.values() for group in groups]

    def wait_for_ends(self) -> None:
        """Returns when all that had to be ended has ended."""
        self._enders.wait()

    def gather(self, hosts: Sequence[str]) -> None:
        # What the hosts' names meant when workers were started there; names may be gone by now.
        remote = [host for host in hosts if not is_local(host)]
        ways = [self._ways[host] for host in remote or hosts if host in self._ways]
        self._gathered = list(dict.fromkeys(itertools.chain.from_iterable(ways)))

    def answer(self, worker: int, attempt: int, place: Place) -> None:
        told = dict(place.environment)
        if told:
            self._assign(worker, int(told[_settings.RANK.name]))
            # Workers tell each other the address at which they reach the store: that is one of
            # the network which they share, as in jobs whose hosts stay.
            own = self._ways.get(told[_settings.HOSTNAME.name], ())
            ways = sorted(self._gathered, key=lambda address: address not in own)
            told[_settings.RENDEZVOUS_ADDRESS.name] = ",".join(ways)
        before = self._attempts.get(worker, attempt)
        if before != attempt:  # who asks anew has got that answer
            self._store.drop(Place.key(worker, before))
        self._attempts[worker] = attempt
        self._store.put(Place.key(worker, attempt), Place(place.round, told, place.reason).encode())

    def announce(self, round_number: int, update: int) -> None:
        self._tell(News(round_number, self._stamp(), update))

    def announce_loss(self, round_number: int, loss: str) -> None:
        self._tell(News(round_number, self._stamp(), 0, loss))

    def _stamp(self) -> float:
        """The time, but later than that of the news before: the clock may have been set back."""
        self._last_stamp = max(time.time(), self._last_stamp + 1e-3)
        return self._last_stamp

    def _tell(self, news: News) -> None:
        self._store.put(News.key(self._news), news.encode())
        self._news += 1

    def _assign(self, worker: int, rank: int) -> None:
        try:
            self._output.assign(worker, rank)
        except OutputError as error:  # the job is worth more than the copies
            say(f"horovodrun: no copy of rank {rank}'s output: {error}")

    def _way(self, host: str) -> Sequence[str]:
        remote = [] if is_local(host) else [host]
        self._ways[host] = choose_addresses(
            remote, self._job.interfaces, any_name=self._job.ssh.any_name
        )
        return self._ways[host]

    def _on_exit(self, worker: int, code: int) -> None:
        try:
            self._output.finish(worker)
        finally:
            self._events.put(Ended(worker, code))


def run_elastic_job(elastic: ElasticJob, exchange: Exchange | None = None) -> int:
    """Runs a job to its end.

    Args:
        elastic: what to run.
        exchange: what else uses its store.

    Returns:
        0 when the workers have finished; the first failure's exit code when the job could not go
        on; 128 + n after signal n, the first one.

    Raises:
        NetworkError: there is no address at which another host reaches this one.
        OutputError: the output's copies cannot be written.
        ThreadError: there is no room for the launcher's own threads.
    """
    job, limits = elastic.job, elastic.limits
    secret = secrets.token_bytes(SECRET_BYTES)
    exchange = exchange or NoExchange()
    events: _Events = queue.SimpleQueue()

    def on_put(key: bytes, value: bytes) -> None:
        if (ready := Ready.decode(key, value)) is not None:
            events.put(ready)

    if warning := allow_descriptors(max(limits.start, limits.most or 0)):
        say(warning)
    ended = threading.Event()
    with (
        contextlib.closing(make_output(job, limits.start, events.put)) as output,
        contextlib.closing(
            RendezvousServer(secret, _listening_address(elastic.discovery), on_put)
        ) as store,
        signals_as_events(events.put),
    ):
        launcher = _Launcher(job, secret, store, output, events)
        blacklist = Blacklist(elastic.cooldown, time.monotonic)
        driver = Driver(limits, launcher, blacklist, can_grow=not elastic.discovery.fixed)
        exchange.before(store)
        start_thread(
            _discover,
            "the thread that looks for hosts",
            elastic.discovery,
            events,
            ended,
            daemon=True,
        )
        try:
            with killed_on_error(launcher.groups):
                code, signalled = _run(driver, launcher, events)
            reasons = [driver.reason] if driver.reason else []
            failure = driver.failure
            if failure is not None and failure.code == code:
                reasons.append(describe_failure(failure.name, code))
                say(reasons[-1])
            exchange.after(store, "\n".join(reasons) or None, signalled)
            return code
        finally:
            ended.set()
            elastic.discovery.stop()


def _listening_address(discovery: HostDiscovery) -> str:
    """Where the store listens: for this host alone where no other one can ever join.

    Raises:
        NetworkError: it has no loopback address then.
    """
    if discovery.fixed and all(map(is_local, discovery.find_available_hosts_and_slots())):
        return loopback_address()
    return any_address()


def _discover(discovery: HostDiscovery, events: _Events, ended: threading.Event) -> None:
    """Reports the hosts whenever they have changed, or that not even the first look finds any."""
    known: Mapping[str, int] | None = None
    complaint = ""
    while not ended.is_set():
        try:
            found = dict(discovery.find_available_hosts_and_slots())
        except DiscoveryError as error:
            if ended.is_set():
                return  # it was broken off
            if known is None:
                events.put(_NotFound(str(error)))
                return
            if str(error) != complaint:
                complaint = str(error)
                say(f"horovodrun: cannot tell the hosts this time: {complaint}")
        except Exception as error:  # noqa: BLE001 - whose job it is raises it
            events.put(Broken(error))
            return
        else:
            complaint = ""
            if found != known:
                known = found
                events.put(_Found(found))
        if discovery.fixed:
            return
        ended.wait(DISCOVERY_SECONDS)


def _run(driver: Driver, launcher: _Launcher, events: _Events) -> tuple[int, int | None]:
    """Returns the job's exit code, and the first signal that came."""
    running = _Running(driver, launcher)
    driver.tick()
    while running.verdict is None or driver.working:
        at = driver.next_tick() if running.verdict is None else None
        patience = None if at is None else max(at - launcher.now(), 0.0)
        try:
            running.take(events.get(timeout=patience))
        except queue.Empty:
            driver.tick()
        running.conclude()
    launcher.wait_for_ends()
    return running.verdict, running.signalled


@dataclass
class _Running:
    """Hands events to the driver, and ends the workers once the job is decided."""

    driver: Driver
    launcher: _Launcher
    verdict: int | None = None
    signalled: int | None = None

    def take(self, event: Ended | Signalled | Ready | _Found | _NotFound | Broken) -> None:
        if isinstance(event, Ended):
            self.launcher.forget(event.rank)
            self.driver.worker_ended(event.rank, event.code)
        elif isinstance(event, Ready):
            self.driver.worker_ready(event)
        elif isinstance(event, _Found):
            self.driver.hosts_found(event.hosts)
        elif isinstance(event, _NotFound):
            self.driver.no_hosts_found(event.reason)
        elif isinstance(event, Broken):
            raise event.error
        else:
            if event.at_once or self.verdict is None:
                self.launcher.end_all(kill=event.at_once)
            before = None if self.signalled is None else BY_SIGNAL + self.signalled
            self.signalled = first_of(self.signalled, event)
            if self.verdict in (None, before):  # it has not been decided otherwise
                self.driver.verdict = self.verdict = BY_SIGNAL + self.signalled

    def conclude(self) -> None:
        """Ends the workers when the driver has decided."""
        if self.verdict is None and self.driver.verdict is not None:
            self.verdict = self.driver.verdict
            self.launcher.end_all(kill=False)
