"""Loaders of batches, which read ahead in a thread."""

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.data.data_loader_base import _Ahead

SECONDS = 30  # until something that hangs is given up


class Numbers(BaseDataLoader):
    """Batches 0, 1, … of each epoch; keeps what it has read, and on which threads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read: list[int] = []
        self.threads: set[threading.Thread] = set()
        self.many = threading.Event()
        self.closed = False

    def __len__(self) -> int:
        return self.count

    def _iterate(self) -> Iterator[Any]:
        try:
            for number in range(self.count):
                self.threads.add(threading.current_thread())
                self.read.append(number)
                if len(self.read) == 4:
                    self.many.set()
                yield number
        finally:
            self.closed = True

    def _process_batch(self, batch: Any) -> Any:
        return batch, threading.current_thread()


class Ahead(AsyncDataLoaderMixin, Numbers):
    pass


class Failing(AsyncDataLoaderMixin, BaseDataLoader):
    def __init__(self) -> None:
        super().__init__(async_loader_queue_size=1)
        self.epochs = 0

    def _iterate(self) -> Iterator[Any]:
        self.epochs += 1
        yield None
        yield ValueError("only a batch")
        yield "the last one"
        if self.epochs % 2:
            raise OSError("no such file")


def values(loader: Numbers) -> list[int]:
    return [batch for batch, _ in loader]


def wait_for(thread: threading.Thread) -> None:
    thread.join(SECONDS)
    assert not thread.is_alive()


def only(threads: set[threading.Thread]) -> threading.Thread:
    (thread,) = threads
    return thread


@pytest.mark.parametrize("size", [1, 2, 64])
def test_a_thread_reads_and_the_caller_processes(size: int) -> None:
    with Ahead(size, count=5) as loader:
        for _ in range(3):
            assert values(loader) == [0, 1, 2, 3, 4]
        assert {thread for _, thread in loader} == {threading.current_thread()}
    thread = only(loader.threads)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


@pytest.mark.parametrize("size", [0, -1])
def test_without_room_there_is_no_thread(size: int) -> None:
    loader = Ahead(async_loader_queue_size=size, count=3)
    assert values(loader) == [0, 1, 2]
    assert loader.threads == {threading.current_thread()}
    loader.close_async_loader()
    assert values(loader) == [0, 1, 2]


def test_no_more_is_read_than_there_is_room_for() -> None:
    loader = Ahead(2, count=1000)
    assert next(iter(loader))[0] == 0
    assert loader.many.wait(SECONDS)  # one was taken, two wait, and the thread has one in its hand
    loader.close_async_loader()
    assert loader.read == [0, 1, 2, 3]
    assert loader.closed


def test_an_iteration_goes_on_where_another_was_left() -> None:
    with Ahead(count=4) as loader:
        assert next(iter(loader))[0] == 0
        assert values(loader) == [1, 2, 3]
        assert values(loader) == [0, 1, 2, 3]


def test_errors_come_to_the_caller_and_the_next_iteration_begins_anew() -> None:
    loader = Failing()
    for _ in range(2):
        batches = iter(loader)
        assert next(batches) is None
        assert isinstance(next(batches), ValueError)
        assert next(batches) == "the last one"
        with pytest.raises(OSError, match="no such file"):
            next(batches)
        assert list(iter(loader))[-1] == "the last one"
        loader.close_async_loader()
        loader.epochs = 0


def test_closing_twice_and_iterating_again() -> None:
    loader = Ahead(1, count=3)
    loader.close_async_loader()
    assert next(iter(loader))[0] == 0
    loader.close_async_loader()
    loader.close_async_loader()
    assert values(loader) == [0, 1, 2]
    loader.close_async_loader()
    assert not any(thread.is_alive() for thread in loader.threads)


def test_closing_ends_an_iteration_of_another_thread() -> None:
    asked, go_on, came = threading.Event(), threading.Event(), threading.Event()

    class Slow(AsyncDataLoaderMixin, BaseDataLoader):
        def _iterate(self) -> Iterator[Any]:
            yield 1
            asked.set()
            go_on.wait(SECONDS)
            yield 2

    loader, taken = Slow(), list[int]()

    def take() -> None:
        for batch in loader:
            taken.append(batch)
            came.set()

    caller = threading.Thread(target=take)
    caller.start()
    assert asked.wait(SECONDS)
    assert came.wait(SECONDS)
    closer = threading.Thread(target=loader.close_async_loader)
    closer.start()
    wait_for(caller)
    go_on.set()
    wait_for(closer)
    assert taken == [1]


def test_a_loader_that_nobody_has_takes_its_thread_along() -> None:
    loader = Ahead(2, count=1000)
    assert next(iter(loader))[0] == 0
    assert loader.many.wait(SECONDS)
    thread = only(loader.threads)
    del loader
    gc.collect()
    wait_for(thread)


def test_a_loader_has_private_names_for_itself() -> None:
    class Own(BaseDataLoader):
        def __init__(self) -> None:
            self._batches = [1, 2, 3]
            self._ahead = self._thread = self._finalizer = "mine"

        def _start(self) -> list[int]:
            return self._batches

        def _next_item(self) -> int:
            return 4

        def _say(self) -> int:
            return 5

        def _iterate(self) -> Iterator[Any]:
            yield from (*self._start(), self._next_item(), self._say())

    class Both(AsyncDataLoaderMixin, Own):
        pass

    loader = Both(2)
    for _ in range(3):
        assert list(iter(loader)) == [1, 2, 3, 4, 5]
    loader.close_async_loader()
    assert loader._batches == [1, 2, 3]
    assert (loader._ahead, loader._thread, loader._finalizer) == ("mine", "mine", "mine")


def test_a_loader_keeps_nothing_of_what_has_been_closed() -> None:
    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, _Ahead) for each in gc.get_objects())

    before, loader = kept(), Ahead(2, count=3)
    for _ in range(5):
        with loader:
            assert values(loader) == [0, 1, 2]
    assert kept() == before


def test_a_program_ends_while_a_thread_reads() -> None:
    code = """
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
import sys
class Endless(AsyncDataLoaderMixin, BaseDataLoader):
    def _iterate(self):
        while True:
            yield 1
loader = Endless(2, True)
print(next(iter(loader)), *[name for name in sys.modules if "_bindings" in name])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1\n"
    assert done.stderr == "horovod: the thread that reads up to 2 batches ahead has begun\n"


def test_a_loader_says_what_it_does_not_know() -> None:
    with pytest.raises(NotImplementedError):
        len(BaseDataLoader())
    with pytest.raises(NotImplementedError):
        next(iter(BaseDataLoader()))
    assert len(Ahead(count=3)) == 3
