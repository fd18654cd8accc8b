"""One job: the store, the workers of all hosts, and the first failure that ends them all."""

import contextlib
import functools
import itertools
import queue
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from horovod import _chosen_settings, _settings
from horovod.runner.descriptors import allow_descriptors
from horovod.runner.exchange import Exchange, NoExchange, describe_failure
from horovod.runner.hosts import SlotInfo, is_local
from horovod.runner.network import choose_addresses, listening_address, own_way_first
from horovod.runner.output import STDERR, STDOUT, Output
from horovod.runner.processes import LocalWorkers
from horovod.runner.remote import Order
from horovod.runner.rendezvous import RendezvousServer, read_joined
from horovod.runner.signals import Signalled, signals_as_events
from horovod.runner.ssh import GREETING_SECONDS, RemoteWorkers
from horovod.runner.ssh_options import SshOptions, forwarded
from horovod.runner.streams import bytes_of, say, tell
from horovod.runner.workers import Enders, Workers, started_beside

SECRET_BYTES = 32
BY_SIGNAL = 128  # what ended by signal n has the code 128 + n
FAILURE_SECONDS = 2.0  # for the other ranks to notice a failure and say so before they are ended
NEVER_JOINED = 1  # exit code of a job that a rank has left before `init`


def start_settings(interfaces: Sequence[str], timeout: float | None) -> dict[str, str]:
    """What workers are told of how they find each other.

    Args:
        interfaces: network interfaces to use; none for any.
        timeout: seconds that they wait for each other; None for their own.
    """
    settings = {}
    if interfaces:
        settings[_settings.INTERFACE.name] = ",".join(interfaces)
        settings["NCCL_SOCKET_IFNAME"] = ",".join(interfaces)
    if timeout is not None:
        settings[_settings.START_TIMEOUT.name] = str(timeout)
    return settings


def store_settings(addresses: Sequence[str], port: int, secret: bytes) -> dict[str, str]:
    """The variables by which a worker finds the store.

    Args:
        addresses: where workers reach it.
        port: likewise.
        secret: of the job.
    """
    return {
        _settings.RENDEZVOUS_ADDRESS.name: ",".join(addresses),
        _settings.RENDEZVOUS_PORT.name: str(port),
        _settings.SECRET.name: secret.hex(),
    }


@dataclass(frozen=True)
class Job:
    """What to run where.

    Attributes:
        interfaces: network interfaces to use; empty for what the routing table says.
        output_directory: where to keep copies of the output; None for nowhere.
        start_timeout: seconds for the ranks to find each other; None for the default.
    """

    arguments: Sequence[str]
    slots: Sequence[SlotInfo]
    environment: Mapping[str, str]
    directory: Path
    ssh: SshOptions
    interfaces: Sequence[str] = ()
    output_directory: Path | None = None
    timestamp: bool = False
    start_timeout: float | None = None
    verbose: bool = False

    def hosts(self) -> dict[str, list[SlotInfo]]:
        """The places by host."""
        by_host = itertools.groupby(self.slots, lambda slot: slot.hostname)
        return {hostname: list(slots) for hostname, slots in by_host}

    def worker_settings(self, addresses: Sequence[str], port: int, secret: bytes) -> dict[str, str]:
        """What all workers are told, besides their places.

        Args:
            addresses: of the store, where the workers reach it.
            port: of the store.
            secret: of the job.
        """
        settings = store_settings(addresses, port, secret)
        settings[_settings.CONTROLLER.name] = settings[_settings.CPU_OPERATIONS.name] = "gloo"
        settings["PYTHONUNBUFFERED"] = "1"
        return settings | start_settings(self.interfaces, self.start_timeout)


@dataclass(frozen=True)
class Ended:
    """A worker has ended.

    Attributes:
        lost: nobody has told its own exit code, as the connection to its host was lost.
    """

    rank: int
    code: int
    lost: bool = False

    @property
    def by_force(self) -> bool:
        """Whether it has not ended by itself, as those do that cannot go on without another."""
        return self.lost or self.code - BY_SIGNAL in signal.valid_signals()


@dataclass(frozen=True)
class Joined:
    """A worker has called `init`.

    Attributes:
        rank: its rank.
        ranks: which ranks it waits for; empty for all.
    """

    rank: int
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Broken:
    """Workers cannot be started, or hosts not be found, for a reason that nobody has thought of."""

    error: BaseException


Events = queue.SimpleQueue[Ended | Joined | Signalled | Broken]


@dataclass
class Supervision:
    """Waits for workers to end, and ends the others once one has failed or a signal came."""

    groups: Sequence[Workers]
    events: Events
    remaining: set[int]
    failure: Ended | None = None
    reason: str | None = None  # of the failure, as the job's last word
    signalled: int | None = None
    _enders: Enders = field(default_factory=Enders)
    _ending: bool = False
    _joined: dict[int, frozenset[int]] = field(default_factory=dict)
    _never_joined: set[int] = field(default_factory=set)

    def wait(self) -> int:
        """Returns the job's exit code once all workers have ended.

        Raises:
            BaseException: that of `Broken`.
        """
        deadline: float | None = None
        while self.remaining:
            try:
                patience = None if deadline is None else max(deadline - time.monotonic(), 0)
                event = self.events.get(timeout=patience)
            except queue.Empty:
                deadline = None
                self._end_all(kill=False)
                continue
            if isinstance(event, Broken):
                raise event.error
            if isinstance(event, Signalled):
                if event.at_once or not self._ending:
                    self._end_all(kill=event.at_once)
                self.signalled = first_of(self.signalled, event)
                deadline = None
            elif isinstance(event, Joined):
                self._joined[event.rank] = event.ranks
                if self._miss_someone():
                    deadline = time.monotonic()
            elif self._take(event):
                deadline = time.monotonic() + FAILURE_SECONDS
        self._enders.wait()
        return self._conclude()

    def _take(self, event: Ended) -> bool:
        """Notes a worker's end; True when it is the first failure."""
        self.remaining.discard(event.rank)
        if event.code == 0 and event.rank not in self._joined:
            self._never_joined.add(event.rank)
            return self._miss_someone()
        if event.code == 0 or self._ending:
            return False
        say(f"Process {event.rank} exit with status code {event.code}.")
        if self.failure is not None:
            # Who only suffers from another rank's end raises an exception, and ends perhaps sooner
            # than the system has taken the other apart.
            if event.by_force and not self.failure.by_force:
                self.failure = event
            return False
        self.failure = event
        if self.remaining:
            say(f"Terminating remaining workers after failure of Process {event.rank}.")
        return True

    def _miss_someone(self) -> bool:
        """Whether ranks wait in `init` for one that has ended without it; says so once."""
        if self._ending or self.failure is not None:
            return False
        waits = [
            (missing, rank)
            for rank, ranks in self._joined.items()
            for missing in self._never_joined
            if rank in self.remaining and (not ranks or missing in ranks)
        ]
        if not waits:
            return False
        missing, waiting = min(waits)
        reason = (
            f"Process {missing} ended with code 0 before it had called hvd.init(), which Process"
            f" {waiting} has called."
        )
        say(f"Terminating remaining workers: {reason}")
        self.reason = f"The job was ended: {reason}"
        self.failure = Ended(missing, NEVER_JOINED)
        return True

    def _end_all(self, *, kill: bool) -> None:
        self._ending = True
        self._enders.end(self.groups, kill=kill)

    def _conclude(self) -> int:
        if self.failure is not None:
            self.reason = self.reason or describe_failure(str(self.failure.rank), self.failure.code)
            say(self.reason)
            return self.failure.code
        return 0 if self.signalled is None else BY_SIGNAL + self.signalled


def first_of(before: int | None, event: Signalled) -> int:
    """Which signal has ended a job.

    Args:
        before: the first one until now.
        event: the one that has come. Who reads the output may get the same signal, and be gone
            before this process sees its own: SIGPIPE is the first one only if it is the only one.
    """
    return event.number if before in (None, signal.SIGPIPE) else before


def run_job(job: Job, exchange: Exchange | None = None) -> int:
    """Runs a job to its end.

    Args:
        job: what to run where.
        exchange: what else uses its store.

    Returns:
        0, or the exit code of the worker that failed first (of several that end at nearly the same
        time, one that a signal has ended, or that was lost with its host), or 128 + n after signal
        n, the first one.

    Raises:
        NetworkError: there is no address at which the other hosts reach this one.
        OutputError: the output's copies cannot be written.
        ThreadError: there is no room for the store's thread.
    """
    exchange = exchange or NoExchange()
    remote_hosts = [hostname for hostname in job.hosts() if not is_local(hostname)]
    secret = secrets.token_bytes(SECRET_BYTES)
    addresses = choose_addresses(remote_hosts, job.interfaces, any_name=job.ssh.any_name)
    events: Events = queue.SimpleQueue()
    if warning := allow_descriptors(len(job.slots)):
        say(warning)

    def on_put(key: bytes, value: bytes) -> None:
        if (joined := read_joined(key, value)) is not None:
            events.put(Joined(*joined))

    with (
        contextlib.closing(make_output(job, len(job.slots), events.put)) as output,
        contextlib.closing(RendezvousServer(secret, listening_address(addresses), on_put)) as store,
        signals_as_events(events.put),
    ):
        if job.verbose:
            say(f"The store listens on {', '.join(addresses)}, port {store.port}.")
        settings = job.worker_settings(addresses, store.port, secret)
        exchange.before(store)
        groups = _make_groups(job, settings, output, events)
        supervision = Supervision(groups, events, {slot.rank for slot in job.slots})
        with started_beside(groups, lambda error: events.put(Broken(error))):
            code = supervision.wait()
        exchange.after(store, supervision.reason, supervision.signalled)
        return code


def make_output(job: Job, size: int, put: Callable[[Signalled], None]) -> Output:
    """Where a job's output goes; when nobody reads it any more, that is as a signal.

    Raises:
        OutputError: the output's copies cannot be written.
    """
    return Output(
        size,
        {
            STDOUT: bytes_of(sys.stdout, sys.__stdout__),
            STDERR: bytes_of(sys.stderr, sys.__stderr__),
        },
        directory=job.output_directory,
        timestamp=job.timestamp,
        on_nobody_reads=lambda: put(Signalled(signal.SIGPIPE)),
    )


def _make_groups(
    job: Job, settings: Mapping[str, str], output: Output, events: Events
) -> list[Workers]:
    def on_exit(rank: int, code: int, *, lost: bool = False) -> None:
        try:
            output.finish(rank)
        finally:
            events.put(Ended(rank, code, lost))

    groups: list[Workers] = []
    addresses = settings[_settings.RENDEZVOUS_ADDRESS.name].split(",")
    for hostname, slots in job.hosts().items():
        told = dict(settings)
        if len(addresses) > 1 and not is_local(hostname):  # here, each of them is this host's
            own = own_way_first(hostname, addresses)
            told[_settings.RENDEZVOUS_ADDRESS.name] = ",".join(own)
        workers = {slot.rank: slot.environment() for slot in slots}
        on_lost = functools.partial(on_exit, lost=True)
        groups.append(make_workers(job, hostname, told, workers, output.write, on_exit, on_lost))
    return groups


def make_workers(
    job: Job,
    hostname: str,
    settings: Mapping[str, str],
    workers: Mapping[int, Mapping[str, str]],
    on_output: Callable[[int, str, bytes], None],
    on_exit: Callable[[int, int], None],
    on_lost: Callable[[int, int], None] | None = None,
) -> Workers:
    """The workers of one host, not yet started.

    Args:
        job: what they run.
        hostname: of the host.
        settings: what all of them are told.
        workers: per worker, what it is told besides.
        on_output: called with worker, stream and bytes.
        on_exit: called once per worker with its number and exit code.
        on_lost: called in its place where that is the connection's; None for the same.
    """
    local = is_local(hostname)
    order = Order(
        arguments=list(job.arguments),
        directory=str(job.directory),
        environment={**(job.environment if local else forwarded(job.environment)), **settings},
        workers=workers,
    )
    if job.verbose:
        ranks = ", ".join(told[_settings.RANK.name] for told in workers.values())
        way = "directly" if local else f"over {job.ssh.kubexec or 'ssh'}"
        say(f"Starting on {hostname} {way}: ranks {ranks}.")
    if local:
        return LocalWorkers(order.commands({}), on_output, on_exit)
    patience = _chosen_settings.start_timeout({**job.environment, **settings}, GREETING_SECONDS)
    return RemoteWorkers(
        hostname, job.ssh, order, on_output, on_exit, tell, patience, on_lost or on_exit
    )
