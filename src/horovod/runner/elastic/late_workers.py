"""Workers that a thread of their own makes and starts: looking up a host's name may take long."""

import signal
import threading
from collections.abc import Callable, Collection

from horovod.runner.network import NetworkError
from horovod.runner.process_groups import TERMINATE_SECONDS
from horovod.runner.processes import CANNOT_START, exit_code
from horovod.runner.streams import say
from horovod.runner.threads import ThreadError, start_thread
from horovod.runner.workers import Workers


class LateWorkers:
    """Stands for the workers of a host, also while these have not been made yet.

    Args:
        workers: their numbers.
        make: returns them, not yet started; may raise a `NetworkError`.
        on_exit: called with the number and exit code of workers that are never made.
        on_error: called with an exception of which starting them has ended.
    """

    def __init__(
        self,
        workers: Collection[int],
        make: Callable[[], Workers],
        on_exit: Callable[[int, int], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._workers = workers
        self._make = make
        self._on_exit = on_exit
        self._on_error = on_error
        self._lock = threading.Lock()
        self._unwanted: set[int] = set()  # before they have been made
        self._given_up = False  # likewise, all of them
        self._made: Workers | None = None
        self._started = threading.Event()

    def start(self) -> None:
        """Returns at once, unless there is no room for a thread."""
        try:
            start_thread(self._start, "a thread that starts workers", daemon=True)
        except ThreadError:
            self._start()

    def _start(self) -> None:
        try:
            made = self._make()
            with self._lock:
                if self._given_up:
                    return
                self._made = made
            try:
                made.start()
            finally:
                self._started.set()
        except NetworkError as error:
            if not self._given_up:
                say(f"horovodrun: {error}")
            self._give_up(CANNOT_START)
        except BaseException as error:  # noqa: BLE001 - whose job it is raises it
            self._on_error(error)
        else:
            for worker in self._unwanted:
                made.stop_one(worker)

    def _give_up(self, code: int) -> Workers | None:
        """Has no worker made any more; returns those that have been made."""
        with self._lock:
            if self._made is not None or self._given_up:
                return self._made
            self._given_up = True
        for worker in self._workers:
            self._on_exit(worker, code)
        return None

    def stop(self) -> None:
        """Ends them; those that have not been made yet never are, and have ended by SIGTERM."""
        if (made := self._give_up(exit_code(-signal.SIGTERM))) is not None:
            made.stop()

    def stop_one(self, worker: int) -> None:
        """Ends one of them, as soon as it has been made, unless no other one is wanted."""
        with self._lock:
            made = self._made
            if made is None:
                self._unwanted.add(worker)
            all_unwanted = self._unwanted.issuperset(self._workers)
        if made is not None:
            made.stop_one(worker)
        elif all_unwanted:
            self.stop()

    def kill(self) -> None:
        """Ends them without asking, as `stop` does."""
        if (made := self._give_up(exit_code(-signal.SIGTERM))) is not None:
            made.kill()
            self._started.wait(TERMINATE_SECONDS)  # none is started after this

    @property
    def gone(self) -> bool:
        """Whether nothing is left of them."""
        if self._made is None:
            return self._given_up
        return self._started.is_set() and self._made.gone
