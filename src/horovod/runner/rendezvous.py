"""The store in which the ranks of a job find each other: keys and values behind a shared secret."""

import collections
import contextlib
import hmac
import secrets
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from horovod.runner.callers import Callers
from horovod.runner.descriptors import most_descriptors
from horovod.runner.network import NetworkError
from horovod.runner.store_messages import (
    CLIENT,
    DIGEST_BYTES,
    GET,
    HANDSHAKE_SECONDS,
    HELLO_BYTES,
    MAGIC,
    MAX_KEY,
    MAX_VALUE,
    NONCE_BYTES,
    OK,
    PUT,
    SERVER,
    TIMEOUT,
    Proofs,
    sign,
)
from horovod.runner.streams import say
from horovod.runner.threads import ThreadError, start_thread

_BACKLOG = 4096  # all ranks of a job connect at once; one that finds no place tries again after 1 s
_ACCEPTED_AT_ONCE = 16  # before those who wait are heard again
_MOST_CALLERS = 4096
_ACCEPT_PAUSE_SECONDS = 0.05  # after a failed accept


class ProtocolError(Exception):
    """A peer does not keep to the protocol; its connection is closed."""


_JOINED = b"joined/"


def joined(rank: int, ranks: tuple[int, ...] = ()) -> tuple[bytes, bytes]:
    """Key and value that a rank puts when it has called `init`, for the launcher to know.

    Args:
        rank: that has called it.
        ranks: which ranks it waits for; empty for all.
    """
    return b"%b%d" % (_JOINED, rank), b",".join(b"%d" % other for other in ranks)


def read_joined(key: bytes, value: bytes) -> tuple[int, frozenset[int]] | None:
    """What `joined` has made: rank and ranks; None for other keys."""
    if not key.startswith(_JOINED):
        return None
    ranks = frozenset(int(rank) for rank in value.split(b",") if rank)
    return int(key.removeprefix(_JOINED)), ranks


class RendezvousServer:
    """Serves the store from threads of this process until it is closed.

    Args:
        secret: what the clients must know.
        address: IPv4 or IPv6 address to listen on; "::" stands for all of both.
        on_put: called with key and value that a client has put, before it is answered, from the
            client's thread.

    Raises:
        NetworkError: nothing can listen there.
        ThreadError: there is no room for its thread.
    """

    def __init__(
        self,
        secret: bytes,
        address: str,
        on_put: Callable[[bytes, bytes], None] = lambda _key, _value: None,
    ) -> None:
        self._secret = secret
        self._on_put = on_put
        self._values: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        self._ending = threading.Condition(self._lock)
        # By key, and how many wait for it: a value wakes nobody who waits for another.
        self._awaited: dict[bytes, threading.Condition] = {}
        self._waiting: collections.Counter[bytes] = collections.Counter()
        self._closed = False
        self._turned_away = False
        self._connections: set[socket.socket] = set()
        try:
            self._listener = socket.create_server(
                (address, 0),
                backlog=_BACKLOG,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                dualstack_ipv6=address == "::",
            )
            self._selector = selectors.DefaultSelector()
        except OSError as error:
            raise NetworkError(
                f"the launcher cannot listen on {address}: {error.strerror or error}"
            ) from None
        self._listener.settimeout(0.0)
        self.address = address
        self.port: int = self._listener.getsockname()[1]
        try:
            self._acceptor = start_thread(self._accept, "the store's thread", daemon=True)
        except ThreadError:
            self._listener.close()
            self._selector.close()
            raise

    def put(self, key: bytes, value: bytes) -> None:
        """Stores a value for the clients."""
        with self._lock:
            self._values[key] = value
            if (waiters := self._awaited.get(key)) is not None:
                waiters.notify_all()

    def find(self, key: bytes) -> bytes | None:
        """The value of a key; None while there is none."""
        with self._lock:
            return self._values.get(key)

    def drop(self, key: bytes) -> None:
        """Forgets a value, if there is one, that nobody will ask for any more."""
        with self._lock:
            self._values.pop(key, None)

    def close(self) -> None:
        """Stops listening and drops all connections."""
        with self._lock:
            self._closed = True
            for waiters in (self._ending, *self._awaited.values()):
                waiters.notify_all()
            connections = list(self._connections)
        for connection in (self._listener, *connections):
            with contextlib.suppress(OSError):  # it is gone already
                connection.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()

    def _accept(self) -> None:
        """Hears who connects, and gives a thread to those who prove to be the job's.

        Ranks that nobody hears any more are refused; they would wait else, and the job with them.
        """
        with (
            self._listener,
            self._selector as selector,
            contextlib.closing(
                Callers(selector, HELLO_BYTES, _most_callers(), _new_nonce)
            ) as callers,
        ):
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                patience = callers.drop_silent(HANDSHAKE_SECONDS)
                ready = {found.fileobj for found, _ in selector.select(patience)}
                with self._lock:
                    if self._closed:
                        return
                # First, as this process may have been suspended while they waited.
                for connection in callers.among(ready):
                    if (heard := callers.hear(connection)) is not None:
                        self._admit(connection, *heard)
                if self._listener in ready:
                    self._let_some_in(callers)

    def _let_some_in(self, callers: Callers) -> None:
        try:
            for _ in range(_ACCEPTED_AT_ONCE):
                if not callers.let_in(self._listener):
                    return
        except OSError:
            # No free descriptor does not end the store.
            with self._lock:
                self._ending.wait_for(lambda: self._closed, _ACCEPT_PAUSE_SECONDS)

    def _admit(self, connection: socket.socket, ours: bytes, hello: bytes) -> None:
        """Serves who knows the secret, and hangs up on others."""
        theirs = hello[len(MAGIC) : len(MAGIC) + NONCE_BYTES]
        proof = hello[len(MAGIC) + NONCE_BYTES :]
        expected = sign(self._secret, CLIENT, ours, theirs)
        if not hello.startswith(MAGIC) or not hmac.compare_digest(proof, expected):
            connection.close()
            return
        with self._lock:
            self._connections.add(connection)
        asked, answered = (
            Proofs(self._secret, speaker, ours, theirs) for speaker in (CLIENT, SERVER)
        )
        served = _Served(connection, asked, answered)
        answer = sign(self._secret, SERVER, theirs, ours)
        what = "a thread that serves a rank"
        try:
            start_thread(self._serve, what, served, answer, daemon=True)
        except ThreadError as error:
            self._turn_away(connection, str(error))

    def _turn_away(self, connection: socket.socket, reason: str) -> None:
        """Closes a connection that cannot be served; says so of the first."""
        with connection, self._lock:
            self._connections.discard(connection)
        if not self._turned_away:
            say(f"horovodrun: {reason}")
        self._turned_away = True

    def _serve(self, served: "_Served", proof: bytes) -> None:
        connection = served.connection
        try:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(None)
                connection.sendall(proof)
                while (request := served.request()) is not None:
                    served.reply(self._answer(*request))
        except (OSError, ProtocolError):
            return  # the peer is gone or is none of ours; both are its own affair
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _answer(self, op: int, key: bytes, rest: bytes) -> bytes:
        """Does what a request wants, and says what came of it."""
        if op == PUT:
            self.put(key, rest)
            # First: who has been answered may end, and what it has put is to be known by then.
            self._on_put(key, rest)
            return bytes([OK])
        (milliseconds,) = struct.unpack("<I", rest)
        found = self._wait_for(key, milliseconds / 1000)
        if found is None:
            return bytes([TIMEOUT])
        return struct.pack("<BI", OK, len(found)) + found

    def _wait_for(self, key: bytes, seconds: float) -> bytes | None:
        with self._lock:
            waiters = self._awaited.setdefault(key, threading.Condition(self._lock))
            self._waiting[key] += 1
            waiters.wait_for(lambda: self._closed or key in self._values, seconds)
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._awaited[key]
            if self._closed:
                raise ProtocolError("the store is closed")
            return self._values.get(key)


@dataclass(frozen=True)
class _Served:
    """One client's connection.

    Attributes:
        connection: to it.
        asked: the proofs of what it sends.
        answered: those of what it is sent.
    """

    connection: socket.socket
    asked: Proofs
    answered: Proofs

    def request(self) -> tuple[int, bytes, bytes] | None:
        """Its next request: what it wants, the key, and the value or the bytes of a time.

        Returns:
            None when it has hung up.

        Raises:
            ProtocolError: this is no request, or somebody else's.
        """
        op = self.connection.recv(1)
        if not op:
            return None
        if op[0] not in (PUT, GET):
            raise ProtocolError(f"unknown request {op[0]}")
        key_length, key = self._receive_string(MAX_KEY)
        length, rest = self._receive_string(MAX_VALUE) if op[0] == PUT else (b"", self._receive(4))
        message = op + key_length + key + length + rest
        if not self.asked.holds(message, self._receive(DIGEST_BYTES)):
            raise ProtocolError("somebody else has changed what the peer sent")
        return op[0], key, rest

    def reply(self, message: bytes) -> None:
        """Sends it an answer."""
        self.connection.sendall(self.answered.prove(message))

    def _receive_string(self, limit: int) -> tuple[bytes, bytes]:
        announced = self._receive(4)
        (length,) = struct.unpack("<I", announced)
        if length > limit:
            raise ProtocolError(f"{length} bytes announced, at most {limit} are accepted")
        return announced, self._receive(length)

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.connection.recv(count - len(data))
            if not chunk:
                raise ProtocolError(f"the peer hung up after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)


def _new_nonce() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


def _most_callers() -> int:
    """How many may wait unproven: strangers leave half of the descriptors to the job."""
    limit = most_descriptors()
    return _MOST_CALLERS if limit is None else min(_MOST_CALLERS, limit // 2)
