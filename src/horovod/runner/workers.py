"""The workers of a host, whichever it is, and how those of all hosts are ended."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from horovod.runner.threads import ThreadError, start_thread


class Workers(Protocol):
    """The workers of one host."""

    def start(self) -> None:
        """Starts them."""

    def stop(self) -> None:
        """Ends them and returns when they have ended."""

    def stop_one(self, worker: int) -> None:
        """Ends one of them and returns when it has ended."""

    def kill(self) -> None:
        """Ends them without asking."""

    @property
    def gone(self) -> bool:
        """Whether nothing is left of those that have been started: there is nothing to end."""


class Enders:
    """Ends the workers of several hosts at the same time."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def end(self, groups: Iterable[Workers], *, kill: bool) -> None:
        """Has workers ended; waits for those alone for which there is room for no more threads.

        Args:
            groups: the workers.
            kill: end them without asking.
        """
        self._do([group.kill if kill else group.stop for group in groups])

    def end_one(self, group: Workers, worker: int) -> None:
        """Has one worker of a host ended, as `end` ends all."""
        self._do([functools.partial(group.stop_one, worker)])

    def _do(self, works: Iterable[Callable[[], None]]) -> None:
        for work in [work for work in works if not self._start(work)]:
            work()

    def _start(self, work: Callable[[], None]) -> bool:
        """Has a thread do something; False when there is no room for it."""
        try:
            thread = start_thread(work, "a thread that ends workers")
        except ThreadError:
            return False
        self._threads = [*(thread for thread in self._threads if thread.is_alive()), thread]
        return True

    def wait(self) -> None:
        """Returns when all that had to be ended has ended."""
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def killed_on_error(groups: Callable[[], Iterable[Workers]]) -> Iterator[None]:
    """Ends workers without asking when an exception leaves the block.

    Args:
        groups: returns those that may run by then.
    """
    try:
        yield
    except BaseException:
        with contextlib.ExitStack() as killing:  # each of them, whatever becomes of the others
            for group in groups():
                killing.callback(group.kill)
        raise


@contextlib.contextmanager
def started_beside(
    groups: Sequence[Workers], on_error: Callable[[BaseException], None]
) -> Iterator[None]:
    """Starts workers, which takes long if they are many, while the block runs.

    The block hears of failures and signals meanwhile; workers that it has ended are not started any
    more. Where there is room for no more threads, they are started before it runs. When an
    exception leaves it, they are ended without asking.

    Args:
        groups: the workers.
        on_error: called with an exception of which starting them has ended, by another thread.
    """

    def start() -> None:
        try:
            for group in groups:
                group.start()
        except BaseException as error:  # noqa: BLE001 - whose block it is raises it
            on_error(error)

    starter: threading.Thread | None = None
    try:
        with killed_on_error(lambda: groups):
            try:
                starter = start_thread(start, "a thread that starts workers")
            except ThreadError:
                start()
            yield
    finally:
        if starter is not None:
            starter.join()
