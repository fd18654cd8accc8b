"""What a rank and its launcher tell each other through the job's store."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

from horovod import _chosen_settings, _settings
from horovod._chosen_ranks import meeting_of
from horovod._placement import Placement, store_endpoints
from horovod._standard_error import say
from horovod.common.exceptions import HorovodInternalError
from horovod.runner.elastic.messages import News, Place, Ready
from horovod.runner.rendezvous import joined
from horovod.runner.store_client import StoreClient, StoreError

_GRACE_SECONDS = 10.0  # after its deadline, in which another rank says that it passed
# That one question waits in the store, before it is put again: until then nobody notices that the
# launcher's host has vanished.
_QUESTION_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds until a lost connection is made anew


def is_elastic_worker(environment: Mapping[str, str]) -> bool:
    """Whether this process has been started as a worker of an elastic job."""
    return _settings.ELASTIC.read(environment) and _settings.ELASTIC_WORKER.read(environment) >= 0


def _connect(environment: Mapping[str, str]) -> StoreClient:
    """Connects for as long as this rank may wait for others, should the launcher be busy.

    For as long as a start may take, should there be no way to it.

    Raises:
        StoreError: the store does not answer.
    """
    address = _settings.RENDEZVOUS_ADDRESS.read(environment)
    port = _settings.RENDEZVOUS_PORT.read(environment)
    elastic = is_elastic_worker(environment)
    start = _chosen_settings.start_timeout(environment)
    return StoreClient(
        store_endpoints(address, port),
        _settings.SECRET.read(environment),
        _settings.ELASTIC_TIMEOUT.read(environment) if elastic else start,
        start,
    )


def tell_joined(environment: Mapping[str, str], ranks: tuple[int, ...] = (), start: int = 0) -> int:
    """Tells the launcher that this rank calls `init`, so that others do not wait in vain later.

    Args:
        environment: of this process.
        ranks: which ranks it waits for; empty for all.
        start: the number of the first start of these ranks that it may join.

    Returns:
        The first number from there on that is not over.

    Raises:
        HorovodInternalError: the store does not answer; others would take this rank for one that
            never calls `init`, should it end first.
    """
    if _settings.SIZE.read(environment) == 1:
        return start
    try:
        with contextlib.closing(_connect(environment)) as store:
            store.put(*joined(_settings.RANK.read(environment), ranks))
            while store.get(_over(ranks, start), 0) is not None:
                start += 1
    except StoreError as error:
        raise HorovodInternalError(
            f"this rank cannot tell the launcher that it has called hvd.init(): {error}"
        ) from error
    return start


def tell_over(environment: Mapping[str, str], ranks: tuple[int, ...], start: int) -> None:
    """Says that a start has succeeded or failed, so that nobody joins it any more.

    Without an answer it is left at that: who joins it finds nobody, and has to try again.
    """
    if _settings.SIZE.read(environment) == 1:
        return
    with contextlib.suppress(StoreError), contextlib.closing(_connect(environment)) as store:
        store.put(_over(ranks, start), b"")


def _over(ranks: tuple[int, ...], start: int) -> bytes:
    return f"{meeting_of(ranks) if ranks else ''}over/{start}".encode()


def exchange_hosts(placement: Placement, ranks: tuple[int, ...], meeting: str) -> list[str]:
    """Waits for some ranks, and learns what their hosts are called.

    The first of them asks the others and tells them all, so that the store is asked a few times a
    rank, however many there are.

    Args:
        placement: of this rank in the launcher's job.
        ranks: this one among them.
        meeting: stands before the names under which these ranks meet this time.

    Returns:
        The hosts, in the order of the ranks.

    Raises:
        HorovodInternalError: some did not come in time, or the store does not answer.
    """
    deadline = time.monotonic() + placement.timeout
    own = ranks.index(placement.rank)
    table = f"{meeting}hosts".encode()
    try:
        store = StoreClient(placement.rendezvous, placement.secret, placement.timeout)
        with contextlib.closing(store):
            if own == 0:
                hosts: list[object] = [placement.host]
                for position in range(1, len(ranks)):
                    key = f"{meeting}host/{position}".encode()
                    value = store.get(key, max(deadline - time.monotonic(), 0))
                    hosts.append(None if value is None else value.decode())
                store.put(table, json.dumps(hosts).encode())
            else:
                store.put(f"{meeting}host/{own}".encode(), placement.host.encode())
                answer = store.get(table, placement.timeout + _GRACE_SECONDS)
                # Without an answer it is the first that did not come.
                hosts = [None, *ranks[1:]] if answer is None else json.loads(answer)
    except StoreError as error:
        raise HorovodInternalError(f"the ranks {list(ranks)} cannot meet: {error}") from error
    missing = [rank for rank, host in zip(ranks, hosts, strict=True) if host is None]
    if missing:
        raise HorovodInternalError(
            f"hvd.init(comm={list(ranks)}): {_listed(missing)} did not call init() with this list"
            f" within {placement.timeout:g} seconds"
        )
    return [str(host) for host in hosts]


def _listed(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


@dataclass
class TrainingState:
    """What this process knows of the state of an elastic job's training.

    Attributes:
        synchronised: whether it has got that.
        shared: names of elastic functions in which rank 0 was too.
    """

    synchronised: bool = False
    shared: set[str] = field(default_factory=set)


TRAINING_STATE = TrainingState()


def take_place(environment: MutableMapping[str, str], attempt: int, trouble: str = "") -> None:
    """Waits for the next round of the job, and puts this worker's place into the environment.

    However long that takes: others may train until it begins, and it is the launcher that ends who
    waits in vain.

    Args:
        environment: of this process.
        attempt: how often this worker has asked before.
        trouble: why it could not connect with the other ranks in its last place; empty if it could.

    Raises:
        SystemExit: with code 0; the job has no place for this worker any more.
        HorovodInternalError: the launcher has gone.
    """
    worker = _settings.ELASTIC_WORKER.read(environment)
    try:
        with contextlib.closing(_connect(environment)) as store:
            synchronised = TRAINING_STATE.synchronised
            store.put(*Ready(worker, attempt, trouble, synchronised).encode())
            answer = None
            while answer is None:
                answer = store.get(Place.key(worker, attempt), _QUESTION_SECONDS)
    except StoreError as error:
        raise HorovodInternalError(f"this worker cannot ask for its place: {error}") from error
    place = Place.decode(answer)
    if not place.environment:
        say(f"This worker leaves the job: {place.reason}.")
        raise SystemExit(0)
    environment.update(place.environment)
    environment[_settings.ELASTIC_ROUND.name] = str(place.round)


def present_round(environment: Mapping[str, str]) -> int:
    """The round of the elastic job in which this process has its place; 0 before the first."""
    return _settings.ELASTIC_ROUND.read(environment)


def listen(
    environment: Mapping[str, str], on_news: Callable[[News], None], ending: threading.Event
) -> threading.Thread:
    """Hears of hosts that come or go, in a thread that sleeps meanwhile.

    It makes a connection that is lost anew for as long as this process runs, which is ended when
    the launcher has gone. All news are kept in the store, so that none is missed.

    Args:
        environment: of this process; it may come to name other addresses of the launcher.
        on_news: called with all news since the job began, whatever rounds they belong to.
        ending: set when this process ends; no lost connection is made anew then.
    """

    def wait_for_news() -> None:
        number = 0
        pause = _FIRST_PAUSE
        while not ending.is_set():
            with (
                contextlib.suppress(StoreError),
                contextlib.closing(_connect(environment)) as store,
            ):
                while True:
                    value = store.get(News.key(number), _QUESTION_SECONDS)
                    pause = _FIRST_PAUSE
                    if value is not None:
                        number += 1
                        on_news(News.decode(value))
            ending.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    thread = threading.Thread(target=wait_for_news, name="horovod-elastic", daemon=True)
    thread.start()
    return thread
