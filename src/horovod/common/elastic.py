"""State that survives the loss of ranks, and the loop that trains on with those that are left."""

import atexit
import copy
import functools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from horovod import _launcher_store
from horovod._runtime_start import give_up_start
from horovod._standard_error import say
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.runner.elastic.messages import News

Result = TypeVar("Result")


class HostUpdateResult:
    """What has changed about the hosts; values may be joined by `|`."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class Listener(Protocol):
    """Somebody who wants to hear of changes."""

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Hosts have come or gone."""


class WorkerNotificationManager:
    """Passes changes of the hosts on to those who listen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._news: list[News] = []  # which may have come while nobody listened

    def init(self) -> None:
        """Starts to listen, once; does nothing in jobs whose hosts stay."""
        with self._lock:
            if self._thread is None and _launcher_store.is_elastic_worker(os.environ):
                atexit.register(self._ending.set)
                self._thread = _launcher_store.listen(os.environ, self._hear, self._ending)

    def register_listener(self, listener: Listener) -> None:
        """Somebody wants to hear of changes, and at once of those of the present round."""
        with self._lock:
            self._listeners.add(listener)
            present = _launcher_store.present_round(os.environ)
            known = [news for news in self._news if news.round == present]
        for news in known:
            listener.on_hosts_updated(news.timestamp, news.update)

    def remove_listener(self, listener: Listener) -> None:
        """Somebody no longer does."""
        with self._lock:
            self._listeners.discard(listener)

    def listens(self, listener: Listener) -> bool:
        """Whether somebody has wanted to hear of changes, and still does."""
        with self._lock:
            return listener in self._listeners

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Tells all listeners of a change."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.on_hosts_updated(timestamp, update_res)

    def _hear(self, news: News) -> None:
        """Keeps news for listeners to come, and tells those that there are."""
        if news.loss:
            give_up_start(news.round, news.loss)
            return
        with self._lock:
            present = _launcher_store.present_round(os.environ)
            # News of a round may come before this process has learnt its place in it.
            self._news = [known for known in (*self._news, news) if known.round >= present]
        if news.round == present:
            self.handle_hosts_updated(news.timestamp, news.update)


notification_manager = WorkerNotificationManager()


class State:
    """What has to be the same on all ranks, and must not be lost.

    A subclass has `save`, `restore` and `sync`, of which it may leave out what nobody calls.

    Args:
        bcast_object: sends rank 0's object to all ranks.
        get_rank: this rank.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        self._last_updated_timestamp = 0.0
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], Any]]) -> None:
        """Adds functions to be called after the ranks have changed, before training goes on."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The ranks have changed."""
        self._host_messages = queue.SimpleQueue()
        self.reset()
        for callback in list(self._reset_callbacks):  # they may register others, for the next time
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Hosts have come or gone; the next `commit` acts on it."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, and lets ranks come and go if any wait for it.

        Raises:
            HostsUpdatedInterrupt: they do; on all ranks alike.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Lets ranks come and go if any wait for it, without saving.

        Raises:
            HostsUpdatedInterrupt: they do; on all ranks alike. The state is synchronised after
                every change, as new ranks may have come together with the loss of others.
        """
        latest = self._last_updated_timestamp
        update = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, what = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                update |= what
        # Rank 0's view decides, so that all ranks are interrupted at the same commit.
        latest, update = self._bcast_object((latest, update))
        self._last_updated_timestamp = latest
        if update != HostUpdateResult.no_update:
            raise HostsUpdatedInterrupt(skip_sync=False)

    def save(self) -> None:
        """Keeps the state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to what was kept."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the state of rank 0."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapts the state to other ranks; not every state has anything to do."""


CopyLeaf = Callable[[Any, dict[int, Any]], Any]  # as `copy.deepcopy`


def copied(
    value: Any, copy_leaf: CopyLeaf = copy.deepcopy, memo: dict[int, Any] | None = None
) -> Any:
    """A copy of a value, which is kept as it is where it cannot be copied.

    Args:
        value: anything; if a list, tuple or dict cannot be copied as a whole, its items are copied
            one by one.
        copy_leaf: copies everything else.
        memo: the copies made before, by their originals' ids; what values share, their copies do.
    """
    memo = {} if memo is None else memo
    before = len(memo)
    try:
        return copy_leaf(value, memo)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - objects may refuse to be copied in any way
        while len(memo) > before:  # copies that have not become complete
            memo.popitem()
        if type(value) is dict:
            items: dict[Any, Any] = {}
            remember(value, items, memo)
            items.update({key: copied(item, copy_leaf, memo) for key, item in value.items()})
            return items
        if type(value) is list:
            made: list[Any] = []
            remember(value, made, memo)
            made.extend(copied(item, copy_leaf, memo) for item in value)
            return made
        if type(value) is tuple:
            return remember(value, tuple(copied(item, copy_leaf, memo) for item in value), memo)
        return value


def remember(value: Any, made: Any, memo: dict[int, Any]) -> Any:
    """Has `copy.deepcopy` take a copy that was made otherwise; returns it."""
    memo[id(value)] = made
    memo.setdefault(id(memo), []).append(value)  # as `deepcopy`: no other may get its id
    return made


class ObjectState(State):
    """Any values that can be pickled.

    Args:
        bcast_object: sends rank 0's object to all ranks.
        get_rank: this rank.
        kwargs: values by name; they become attributes, and stay the objects that they are until
            others take their places: in `restore`, and on all ranks but rank 0 in `sync`.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._saved_state = kwargs
        self._keep_values()

    def save(self) -> None:
        """Keeps copies of the values, which later changes of these do not reach.

        What cannot be copied is kept as it is. Objects that several values share stay shared.
        """
        self._keep_values()

    def restore(self) -> None:
        """Goes back to the values that were kept."""
        self._put_values_back()

    def sync(self) -> None:
        """Gives all ranks the values that rank 0 has now, and keeps them.

        On the other ranks, objects that several values share stay shared, but not tensors that are
        views of one memory.
        """
        # Without any too: a rank that is new may have some. What was kept before stays so if rank 0
        # is lost on the way.
        self._saved_state = self._bcast_object(self._copies())
        if self._rank() != 0:
            self._put_values_back()

    def _copies(self) -> dict[str, Any]:
        memo: dict[int, Any] = {}
        return {name: self._copy(getattr(self, name), memo) for name in self._saved_state}

    def _keep_values(self) -> None:
        self._saved_state = self._copies()

    def _put_values_back(self) -> None:
        memo: dict[int, Any] = {}
        for name, value in self._saved_state.items():
            setattr(self, name, self._copy(value, memo))

    def _copy(self, value: Any, memo: dict[int, Any] | None = None) -> Any:
        return copied(value, memo=memo)


def refuse_another_function(state: State, name: str) -> None:
    """Keeps a worker from taking over the state of another function than the one that it is in.

    Of a program with two, a newcomer begins with the first while the others are in the second; and
    where a rank is lost between the two, some have left the first one and others go back into it.
    Ranks may be in functions that they have never shared. States without `bcast_object` need none.

    Raises:
        RuntimeError: rank 0 has trained in another one.
    """
    broadcast = getattr(state, "_bcast_object", None)
    if not callable(broadcast):
        return
    ours = _launcher_store.TRAINING_STATE
    said = broadcast((name, ours.synchronised))
    if not isinstance(said, tuple):
        return
    theirs, they_have = said
    if theirs == name:
        ours.shared.add(name)
    elif they_have and (not ours.synchronised or ours.shared & {name, theirs}):
        new = "" if ours.synchronised else ", which is new,"
        raise RuntimeError(
            f"rank 0 trains in {theirs}, and this worker{new} in {name}: what they would sum up is"
            " not the same. While workers may come or be lost, a program needs one elastic"
            " function, in which the state says what is done already"
        )


def name_of(func: Callable[..., Any]) -> str:
    """What the same program calls a function in each of its processes."""
    while isinstance(func, functools.partial):
        func = func.func
    named = func if hasattr(func, "__qualname__") else type(func)
    return f"{named.__module__}.{named.__qualname__}"


class Failures:
    """Says why training goes back to the last commit, so that one that repeats is not silent."""

    def __init__(self) -> None:
        self._text = ""
        self._times = 0

    def tell(self, text: str) -> None:
        """Says so; of a text that repeats, the 10th, 100th, 1,000th and each 10,000th time."""
        self._times = self._times + 1 if text == self._text else 1
        self._text = text
        if self._times == 1:
            say(f"Training goes on from the last commit, because: {text}")
        elif self._times in (10, 100, 1000) or self._times % 10_000 == 0:
            say(f"Training went back to the last commit {self._times} times because: {text}")


def run_fn(func: Callable[..., Result], reset: Callable[[], None]) -> Callable[..., Result]:
    """Makes a training function go on after ranks were lost, and when others come or go.

    Args:
        func: takes a `State` first.
        reset: forms the job anew.
    """
    name = name_of(func)

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Result:
        notification_manager.init()
        is_inner = notification_manager.listens(state)  # of another such call with it
        notification_manager.register_listener(state)
        formed_anew = False
        sync_needed = True
        failures = Failures()
        try:
            while True:
                try:
                    if formed_anew:
                        state.on_reset()
                        # What has come of this round already is dropped there with the former's.
                        notification_manager.register_listener(state)
                    if sync_needed:
                        refuse_another_function(state, name)
                        state.sync()
                    sync_needed = False
                    _launcher_store.TRAINING_STATE.synchronised = True
                    return func(state, *args, **kwargs)
                except HorovodInternalError as error:
                    failures.tell(str(error))
                    state.restore()
                    sync_needed = True
                except HostsUpdatedInterrupt as interrupt:
                    sync_needed = sync_needed or not interrupt.skip_sync
                # Ranks that are lost now are asked for again within; the launcher counts how often
                # the job is formed. A launcher that does not answer is the end.
                reset()
                formed_anew = True
        finally:
            if not is_inner:
                notification_manager.remove_listener(state)

    return wrapper
