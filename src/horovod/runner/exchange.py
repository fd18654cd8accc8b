"""What uses a job's store besides its ranks, and hears how the job has ended."""

import signal
from typing import Protocol

from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.signals import hand_on

_FAILED = (
    "Horovod detected that one or more processes exited with non-zero status, thus causing the job"
    " to be terminated. The first process to do so was:\nProcess name: {name}\nExit code: {code}\n"
)


def describe_failure(name: str, code: int) -> str:
    """What to say of a job that has ended because a rank failed.

    Args:
        name: of the one that failed first.
        code: its exit code.
    """
    return _FAILED.format(name=name, code=code)


class Exchange(Protocol):
    """Something besides the ranks that uses a job's store."""

    def before(self, store: RendezvousServer) -> None:
        """Called before any rank is started."""

    def after(self, store: RendezvousServer, failure: str | None, signalled: int | None) -> None:
        """Called when all ranks have ended.

        Args:
            store: the job's.
            failure: what to say of the first failure, if there was one.
            signalled: the first signal that had the job end, if one did.
        """


class NoExchange:
    """Nothing does."""

    def before(self, store: RendezvousServer) -> None:
        """Puts nothing into the store."""

    def after(self, store: RendezvousServer, failure: str | None, signalled: int | None) -> None:
        """Takes nothing out of it."""


class FirstFailure(NoExchange):
    """Remembers which rank failed first, or which signal came."""

    def __init__(self) -> None:
        self._failure: str | None = None
        self._signalled: int | None = None

    def after(self, store: RendezvousServer, failure: str | None, signalled: int | None) -> None:
        """Notes them."""
        super().after(store, failure, signalled)
        self._failure = failure
        self._signalled = signalled

    def require_success(self, code: int) -> None:
        """Raises what a job came to, unless it was a success.

        Args:
            code: the job's.

        Raises:
            KeyboardInterrupt: this process has got SIGINT, and has Python's handler. A handler of
                the caller's own is called in its place, for other signals that end jobs too.
            RuntimeError: a rank failed, or a signal came that no handler has made an exception of;
                the message says which.
        """
        if self._signalled is not None:
            hand_on(self._signalled)
        if code != 0:
            raise RuntimeError(self._describe(code))

    def _describe(self, code: int) -> str:
        if self._failure is not None:
            return self._failure
        if self._signalled is None:
            return f"The job ended with code {code}."
        if self._signalled == signal.SIGPIPE:
            return "The job was ended because nobody reads its output any more."
        name = signal.Signals(self._signalled).name
        return f"The job was ended because this process has got the signal {name}."
