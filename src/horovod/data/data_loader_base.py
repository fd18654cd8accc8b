"""Loaders of batches, which may read ahead in a thread while the last batch is trained on."""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

from horovod._standard_error import say

_END = object()  # of an epoch, or of reading ahead
_GONE = object()  # in place of the batch of a loader that nobody has any more


class BaseDataLoader:
    """Batches of one epoch at a time: subclasses say in `_iterate` where they come from."""

    def __len__(self) -> int:
        """Number of batches of an epoch.

        Raises:
            NotImplementedError: the subclass does not say.
        """
        raise NotImplementedError

    def _iterate(self) -> Iterator[Any]:
        """Reads the batches of an epoch.

        Raises:
            NotImplementedError: the subclass does not say.
        """
        raise NotImplementedError

    def _process_batch(self, batch: Any) -> Any:
        """What becomes of each batch on the thread that asks for it: by default it stays."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch."""
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Failure(NamedTuple):
    """What `_iterate` has raised."""

    error: BaseException


class _Ahead:
    """What has been read and not been taken yet.

    Args:
        size: how many batches there may be.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[Any] = deque()
        # With a lock that one thread may take twice: the loader may be collected anywhere.
        self._changed = threading.Condition(threading.RLock())
        self._closed = False

    def put(self, item: Any) -> bool:
        """Adds an item, when there is room for it; for a failure there always is.

        Returns:
            Whether anyone is going to take it.
        """
        with self._changed:
            while len(self._items) >= self._size and not isinstance(item, _Failure):
                if self._closed:
                    return False
                self._changed.wait()
            self._items.append(item)
            self._changed.notify_all()
            return not self._closed

    def take(self) -> Any:
        """The next item, when there is one; `_END` once this is closed."""
        with self._changed:
            while not self._items and not self._closed:
                self._changed.wait()
            item = _END if self._closed else self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Wakes whoever waits here, and forgets what has been read."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


class AsyncDataLoaderMixin:
    """Has a thread read ahead, epoch after epoch; stands before the loader's class.

    `class Loader(AsyncDataLoaderMixin, MyLoader)` takes this class's arguments first, by their
    names. The thread begins with the first iteration, and reads the first batches of an epoch when
    it is done with the one before. An iteration that is left before its end is continued by the
    next one. The thread ends with `close_async_loader()`, at the end of a `with` block, and with an
    error, which the iteration raises; the next iteration starts another one. It also ends when the
    garbage collector finds that nobody has the loader any more: not with the last reference, as the
    iteration under way has the loader, and the loader that iteration.

    Args:
        async_loader_queue_size: how many batches wait at most; 0 to read without a thread.
        debug_data_loader: says on standard error when the thread begins and ends.
        args: of the loader's class.
        kwargs: of the loader's class.
    """

    # Users' classes have any names themselves: what Horovod's mixin does not have is mangled here.
    _iterate: Any  # of the loader's class
    _process_batch: Any  # as above

    def __init__(
        self,
        async_loader_queue_size: int = 64,
        debug_data_loader: bool = False,  # noqa: FBT001, FBT002 - Horovod's signature
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self.__ahead: _Ahead | None = None
        self.__thread: threading.Thread | None = None
        self.__batches: Iterator[Any] | None = None
        self.__closing: Callable[[], object] | None = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the thread, and waits for it; what it has read is forgotten."""
        close, thread = self.__closing, self.__thread
        self.__ahead = self.__thread = self.__closing = None
        if close is None or thread is None:
            return
        close()
        if thread is not threading.current_thread():
            thread.join()
        self.__batches = None
        self.__say("has ended")

    def __enter__(self) -> Any:
        """The loader itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the thread."""
        self.close_async_loader()

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch.

        Raises:
            BaseException: whatever `_iterate` raises.
        """
        if self.async_loader_queue_size <= 0:
            for batch in self._iterate():
                yield self._process_batch(batch)
            return
        ahead = self.__ahead or self.__start()
        while (item := ahead.take()) is not _END:
            if isinstance(item, _Failure):
                self.close_async_loader()
                raise item.error
            yield self._process_batch(item)

    def __start(self) -> _Ahead:
        ahead = _Ahead(self.async_loader_queue_size)
        thread = threading.Thread(
            target=_read,
            args=(weakref.WeakMethod(self.__next_item), ahead),
            name="horovod-data-loader",
            daemon=True,
        )
        thread.start()
        self.__ahead, self.__thread = ahead, thread
        self.__closing = weakref.finalize(self, ahead.close)
        self.__say("has begun")
        return ahead

    def __next_item(self) -> Any:
        try:
            if self.__batches is None:
                self.__batches = iter(self._iterate())
            item = next(self.__batches, _END)
        except BaseException as error:  # noqa: BLE001 - it is raised where the batches are asked for
            item = _Failure(error)
        if item is _END or isinstance(item, _Failure):
            self.__batches = None
        return item

    def __say(self, what: str) -> None:
        if self.debug_data_loader:
            say(
                f"horovod: the thread that reads up to {self.async_loader_queue_size} batches ahead"
                f" {what}"
            )


def _read(reference: weakref.WeakMethod[Callable[[], Any]], ahead: _Ahead) -> None:
    """Reads ahead; has the loader only while it reads, so that it does not keep it alive."""
    while True:
        next_item = reference()
        item = _GONE if next_item is None else next_item()
        del next_item
        if item is _GONE or not ahead.put(item) or isinstance(item, _Failure):
            return
        del item
