"""Who has connected and not proved to be one of ours yet; strangers keep nobody waiting."""

import contextlib
import errno
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass
class _Caller:
    greeting: bytes
    said: bytes = b""
    since: float = field(default_factory=time.monotonic)


class Callers:
    """Hears them side by side; where there is no room, who has waited longest is hung up on.

    Args:
        selector: says when one of them has said something; they are registered there.
        length: how many bytes each has to say.
        most: how many may wait at a time.
        greet: makes what each is told first, of a few bytes.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        length: int,
        most: int,
        greet: Callable[[], bytes] = bytes,
    ) -> None:
        self._selector = selector
        self._length = length
        self._most = most
        self._greet = greet
        self._callers: dict[socket.socket, _Caller] = {}  # the first has waited longest

    def close(self) -> None:
        """Hangs up on all."""
        for connection in [*self._callers]:
            self._drop(connection)

    def let_in(self, listener: socket.socket) -> bool:
        """Accepts the next one; False when there is none.

        Raises:
            OSError: there is no room, not even in place of another; or nobody listens any more.
        """
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return False
        except ConnectionAbortedError:
            return True  # it has gone again
        except OSError as error:
            if error.errno not in _NO_ROOM or not self._callers:
                raise
            self._drop(next(iter(self._callers)))
            return True
        connection.settimeout(0.0)
        caller = _Caller(self._greet())
        with contextlib.suppress(OSError):  # it has gone again, which is heard
            connection.send(caller.greeting)
        try:
            self._selector.register(connection, selectors.EVENT_READ)
        except OSError:
            connection.close()
            raise
        self._callers[connection] = caller
        if len(self._callers) > self._most:
            self._drop(next(iter(self._callers)))
        return True

    def among(self, ready: Iterable[object]) -> list[socket.socket]:
        """Those who have something to say."""
        return [
            source
            for source in ready
            if isinstance(source, socket.socket) and source in self._callers
        ]

    def hear(self, connection: socket.socket) -> tuple[bytes, bytes] | None:
        """What one was told and has said, once that is all; then it is left to the caller."""
        caller = self._callers[connection]
        try:
            more = connection.recv(self._length - len(caller.said))
        except BlockingIOError:
            return None
        except OSError:
            more = b""
        caller.said += more
        if len(caller.said) == self._length:
            self._take_out(connection)
            return caller.greeting, caller.said
        if not more:
            self._drop(connection)
        return None

    def drop_silent(self, seconds: float) -> float | None:
        """Hangs up on who has waited so long; returns the time until the next one will have."""
        while self._callers:
            connection, caller = next(iter(self._callers.items()))
            left = caller.since + seconds - time.monotonic()
            if left > 0:
                return left
            self._drop(connection)
        return None

    def _take_out(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._callers[connection]

    def _drop(self, connection: socket.socket) -> None:
        self._take_out(connection)
        connection.close()
