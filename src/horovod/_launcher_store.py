"""What a rank and its launcher tell each other through the job's store."""

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping

from horovod import _settings
from horovod._placement import store_endpoints
from horovod.common.exceptions import HorovodInternalError
from horovod.runner.elastic.messages import News, Place, Ready
from horovod.runner.rendezvous import joined_key
from horovod.runner.store_client import StoreClient, StoreError

_NEWS_SECONDS = 3600.0  # that one question waits in the store for an answer


def is_elastic_worker(environment: Mapping[str, str]) -> bool:
    """Whether this process has been started as a worker of an elastic job."""
    return _settings.ELASTIC.read(environment) and _settings.ELASTIC_WORKER.read(environment) >= 0


def _connect(environment: Mapping[str, str]) -> StoreClient:
    address = _settings.RENDEZVOUS_ADDRESS.read(environment)
    port = _settings.RENDEZVOUS_PORT.read(environment)
    return StoreClient(store_endpoints(address, port), _settings.SECRET.read(environment))


def tell_joined(environment: Mapping[str, str]) -> None:
    """Tells the launcher that this rank calls `init`, so that others do not wait in vain later.

    A store that does not answer is left to the runtime to report, which needs it next.
    """
    if _settings.SIZE.read(environment) == 1:
        return
    with contextlib.suppress(StoreError):
        store = _connect(environment)
        store.put(joined_key(_settings.RANK.read(environment)), b"")
        store.close()


def take_place(environment: MutableMapping[str, str], attempt: int) -> None:
    """Waits for the next round of the job, and puts this worker's place into the environment.

    Args:
        environment: of this process.
        attempt: how often this worker has asked before.

    Raises:
        SystemExit: with code 0; the job has no place for this worker any more.
        HorovodInternalError: the launcher does not answer.
    """
    worker = _settings.ELASTIC_WORKER.read(environment)
    patience = 2 * _settings.ELASTIC_TIMEOUT.read(environment)  # the launcher gives up sooner
    try:
        store = _connect(environment)
        try:
            store.put(*Ready(worker, attempt).encode())
            answer = store.get(Place.key(worker, attempt), patience)
        finally:
            store.close()
    except StoreError as error:
        raise HorovodInternalError(f"this worker cannot ask for its place: {error}") from error
    if answer is None:
        raise HorovodInternalError(f"the launcher gave no place within {patience:g} seconds")
    place = Place.decode(answer)
    if not place.environment:
        sys.stderr.write(f"This worker leaves the job: {place.reason}.\n")
        raise SystemExit(0)
    environment.update(place.environment)
    environment[_settings.ELASTIC_ROUND.name] = str(place.round)


def listen(
    environment: Mapping[str, str], on_news: Callable[[float, int], None]
) -> threading.Thread:
    """Hears of hosts that come or go, in a thread that sleeps meanwhile.

    Args:
        environment: of this process; says in which round it is.
        on_news: called with a timestamp and what has changed, for the present round.
    """

    def wait_for_news() -> None:
        try:
            store = _connect(environment)
            number = 0
            while True:
                value = store.get(News.key(number), _NEWS_SECONDS)
                if value is None:
                    continue
                number += 1
                news = News.decode(value)
                if news.round == _settings.ELASTIC_ROUND.read(environment):
                    on_news(news.timestamp, news.update)
        except StoreError:
            return  # the launcher has gone, and ends its workers

    thread = threading.Thread(target=wait_for_news, name="horovod-elastic", daemon=True)
    thread.start()
    return thread
