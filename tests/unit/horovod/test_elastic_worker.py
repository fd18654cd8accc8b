"""A worker of an elastic job beside a launcher's store: what it hears, and what it does then."""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from horovod import _launcher_store
from horovod.common import elastic
from horovod.common.elastic import (
    HostUpdateResult,
    ObjectState,
    WorkerNotificationManager,
    copied,
    run_fn,
)
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.runner.elastic.messages import News, Place
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.store_client import StoreClient

PATIENCE = 60.0  # for a thread that has to say something
SECRET = b"s" * 32


class Launcher:
    """The store of a job in its first round, and what its driver announces there."""

    def __init__(self, store: RendezvousServer) -> None:
        self._store = store
        self._announced = 0

    def move_to(self, store: RendezvousServer) -> None:
        """Ends all connections; it is found in another place, and has kept what it has said."""
        for number in range(self._announced):
            key = News.key(number)
            value = self._store.find(key)
            assert value is not None
            store.put(key, value)
        self.hang_up()
        self._store = store

    def hang_up(self) -> None:
        """Ends, as far as workers can see."""
        self._store.close()

    def answer(self, attempt: int, **place: str) -> None:
        """Gives the worker a place in the second round."""
        self._store.put(Place.key(0, attempt), Place(2, place).encode())

    def announce(self, round_number: int) -> None:
        """Says that a round should end because hosts have come."""
        news = News(round_number, 1.0 + self._announced, HostUpdateResult.added)
        self._store.put(News.key(self._announced), news.encode())
        self._announced += 1


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    with contextlib.closing(RendezvousServer(SECRET, "127.0.0.1")) as store:
        environment = {
            "HOROVOD_ELASTIC": "1",
            "HOROVOD_ELASTIC_WORKER": "0",
            "HOROVOD_ELASTIC_ROUND": "1",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(store.port),
            "_HOROVOD_SECRET_KEY": SECRET.hex(),
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        manager = WorkerNotificationManager()
        monkeypatch.setattr(elastic, "notification_manager", manager)
        yield Launcher(store)
        manager._ending.set()
    if manager._thread is not None:
        manager._thread.join()


class Noting:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: queue.Queue[float] = queue.Queue()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        assert update_res == HostUpdateResult.added
        self.heard.put(timestamp)


def test_news_of_the_round_reach_who_listens_later(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = elastic.notification_manager
    manager.init()
    first, second, third = Noting(), Noting(), Noting()
    manager.register_listener(first)
    launcher.announce(1)
    assert first.heard.get(timeout=PATIENCE) == 1.0
    manager.remove_listener(first)
    manager.register_listener(second)
    assert second.heard.get_nowait() == 1.0
    launcher.announce(1)
    assert second.heard.get(timeout=PATIENCE) == 2.0
    assert first.heard.empty()
    monkeypatch.setenv("HOROVOD_ELASTIC_ROUND", "2")
    manager.register_listener(third)  # in a round that has come of the news
    assert third.heard.empty()


def test_news_are_heard_after_a_lost_connection(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = elastic.notification_manager
    manager.init()
    listener = Noting()
    manager.register_listener(listener)
    launcher.announce(1)
    assert listener.heard.get(timeout=PATIENCE) == 1.0
    with contextlib.closing(RendezvousServer(SECRET, "127.0.0.1")) as store:
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(store.port))
        launcher.move_to(store)
        launcher.announce(1)
        assert listener.heard.get(timeout=PATIENCE) == 2.0  # and not the first again
    assert listener.heard.empty()


class Lone(ObjectState):
    """The state of the only rank, which says what it has heard."""

    step: int

    def __init__(self) -> None:
        super().__init__(bcast_object=lambda value: value, get_rank=lambda: 0, step=0)
        self.heard: queue.Queue[float] = queue.Queue()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        super().on_hosts_updated(timestamp, update_res)
        self.heard.put(timestamp)


class Log:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.lock = threading.Lock()  # which cannot be copied


def test_what_values_of_a_state_share_their_copies_share() -> None:
    lines: list[str] = []
    state = ObjectState(
        bcast_object=lambda value: value,
        get_rank=lambda: 1,
        lines=lines,
        pair=(lines, [lines]),
        named={"lock": threading.Lock(), "lines": lines},
        log=Log(lines),
        again=lines,
    )

    def together() -> bool:
        held = (state.pair[0], state.pair[1][0], state.named["lines"], state.again)
        return all(each is state.lines for each in held)

    state.lines.append("kept")
    state.save()
    state.lines.append("lost")
    state.restore()
    assert state.lines == ["kept"]
    assert together()
    state.again.append("sent")
    state.sync()
    assert state.lines == ["kept", "sent"]
    assert together()
    assert state.log.lines is lines  # kept as it is, with all that it holds


class Computed(ObjectState):
    """Values that are made when they are asked for."""

    @property
    def low(self) -> list[Any]:
        return [threading.Lock(), 1]

    @low.setter
    def low(self, value: list[Any]) -> None:
        self.was_low = value[1]

    @property
    def high(self) -> list[Any]:
        return [threading.Lock(), 100]

    @high.setter
    def high(self, value: list[Any]) -> None:
        self.was_high = value[1]


def test_values_that_nobody_keeps_are_not_taken_for_each_other() -> None:
    lock = threading.Lock()
    state = Computed(lambda value: value, lambda: 0, low=[lock, 0], high=[lock, 0])
    state.save()
    state.restore()
    assert (state.was_low, state.was_high) == (1, 100)


def test_a_long_list_with_one_item_that_cannot_be_copied_takes_no_time_for_pairs() -> None:
    read: list[int] = []

    class Memo(dict[int, Any]):
        def __iter__(self) -> Any:
            read.append(len(self))
            return super().__iter__()

        def keys(self) -> Any:
            read.append(len(self))
            return super().keys()

    values = [*({"each": i} for i in range(300)), threading.Lock()]
    assert copied(values, memo=Memo())[:300] == values[:300]
    assert not read  # all that was copied before, with each


@pytest.mark.parametrize("place_known", [True, False])
def test_news_of_a_round_that_still_connects_end_it(
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    place_known: bool,  # noqa: FBT001 - pytest passes it by name
) -> None:
    """Whether or not the worker has its place in it by then."""
    state = Lone()
    began: list[int] = []

    def connect() -> None:
        following = 1 + len(began)
        if len(began) == 1:
            if place_known:
                monkeypatch.setenv("HOROVOD_ELASTIC_ROUND", "2")
            launcher.announce(2)
            if not place_known:
                launcher.announce(1)  # which is heard after the other
            assert state.heard.get(timeout=PATIENCE) > 1.0
        monkeypatch.setenv("HOROVOD_ELASTIC_ROUND", str(following))

    def train(state: Lone) -> None:
        began.append(state.step)
        if len(began) == 1:
            launcher.announce(1)
            assert state.heard.get(timeout=PATIENCE) == 1.0
        state.step += 1
        state.commit()

    run_fn(train, connect)(state)
    assert began == [0, 1, 2]


@pytest.mark.parametrize(
    ("trouble", "restored", "synchronised"),
    [
        (HorovodInternalError("a rank was lost"), 1, 2),
        (HostsUpdatedInterrupt(skip_sync=False), 0, 2),
        (HostsUpdatedInterrupt(skip_sync=True), 0, 1),
    ],
)
def test_a_rank_lost_in_a_reset_callback_is_one_lost_in_training(
    trouble: Exception, restored: int, synchronised: int
) -> None:
    happened: list[str] = []

    class Telling(Lone):
        def restore(self) -> None:
            happened.append("restore")
            super().restore()

        def sync(self) -> None:
            happened.append("sync")
            super().sync()

    def fail_once() -> None:
        happened.append("callback")
        if happened.count("callback") == 1:
            raise trouble

    def train(state: Telling) -> str:
        if state.step == 0:
            state.step = 1
            state.save()
            raise HostsUpdatedInterrupt(skip_sync=True)
        return f"done {state.step}"

    state = Telling()
    state.register_reset_callbacks([fail_once])
    assert run_fn(train, lambda: happened.append("reset"))(state) == "done 1"
    assert happened.count("reset") == happened.count("callback") == 2
    assert (happened.count("restore"), happened.count("sync")) == (restored, synchronised)


def test_a_function_that_calls_another_one_with_its_state_hears_on(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Lone()
    warm_up = run_fn(lambda _: None, lambda: None)
    began: list[int] = []

    def train(state: Lone) -> None:
        began.append(1)
        if len(began) > 1:
            return
        warm_up(state)
        launcher.announce(1)
        assert state.heard.get(timeout=PATIENCE) == 1.0
        state.commit()

    run_fn(train, lambda: monkeypatch.setenv("HOROVOD_ELASTIC_ROUND", "2"))(state)
    assert len(began) == 2
    assert not elastic.notification_manager.listens(state)


class Impatient(StoreClient):
    """A connection on which no question waits for its answer."""

    before_question: Callable[[int], None]  # called with the question's number, from 1
    _questions = 0

    def get(self, key: bytes, seconds: float) -> bytes | None:
        assert seconds > 0
        self._questions += 1
        self.before_question(self._questions)
        return super().get(key, 0)


def test_a_worker_waits_for_its_place_until_the_launcher_has_one(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_fourth(number: int) -> None:
        if number == 4:
            launcher.answer(0, HOROVOD_RANK="5")

    monkeypatch.setattr(_launcher_store, "StoreClient", Impatient)
    monkeypatch.setattr(Impatient, "before_question", staticmethod(answer_fourth), raising=False)
    environment = dict(os.environ)
    _launcher_store.take_place(environment, 0)
    assert (environment["HOROVOD_RANK"], environment["HOROVOD_ELASTIC_ROUND"]) == ("5", "2")


def test_a_worker_that_waits_for_its_place_ends_with_the_launcher(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang_up_before_third(number: int) -> None:
        if number == 3:
            launcher.hang_up()

    monkeypatch.setattr(_launcher_store, "StoreClient", Impatient)
    monkeypatch.setattr(
        Impatient, "before_question", staticmethod(hang_up_before_third), raising=False
    )
    with pytest.raises(HorovodInternalError, match="this worker cannot ask for its place: "):
        _launcher_store.take_place(dict(os.environ), 0)
