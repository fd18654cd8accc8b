"""How an agent gets its order where standard input does not reach it: it calls the launcher.

Kubeflow's kubexec.sh passes on output alone, and command lines are logged. So the agent makes a
key, prints it, which the launcher alone reads, and connects to the launcher. Who knows the key is
the agent; the order travels sealed with it. Then the connection stands for standard input: silence,
until the launcher hangs up, dies or is cut off.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from typing import IO

from horovod._placement import store_endpoints
from horovod.runner.callers import Callers
from horovod.runner.network import NetworkError, listening_address
from horovod.runner.store_client import connect

KEY_MARK = b"\nHOROVOD-KEY-1\n"
KEY_BYTES = 32
_PROOF_BYTES = 32
_ORDER_SECONDS = 10.0  # for the agent to take its order
_CALL_SECONDS = 60.0  # from the key to the call
_MOST_CALLERS = 64  # who have not proved themselves yet
_CHUNK = 1 << 16


class CallError(Exception):
    """The agent does not call, or what it is told does not come from the launcher."""


def _mac(key: bytes, speaker: bytes, text: bytes = b"") -> bytes:
    return hmac.digest(key, b"call " + speaker + text, "sha256")


def _hidden(key: bytes, text: bytes) -> bytes:
    """Adds a stream of bytes that a key gives, and takes it off again; for one text per key."""
    stream = hashlib.shake_256(b"order" + key).digest(len(text))
    mixed = int.from_bytes(text, "big") ^ int.from_bytes(stream, "big")
    return mixed.to_bytes(len(text), "big")


def seal(key: bytes, text: bytes) -> bytes:
    """One line that who knows the key alone can read."""
    hidden = _hidden(key, text)
    return base64.b64encode(_mac(key, b"launcher", hidden) + hidden) + b"\n"


def unseal(key: bytes, line: bytes) -> bytes:
    """Undoes `seal`.

    Raises:
        CallError: who has sealed it does not know the key.
    """
    with contextlib.suppress(ValueError):
        sealed = base64.b64decode(line)
        hidden = sealed[_PROOF_BYTES:]
        if hmac.compare_digest(sealed[:_PROOF_BYTES], _mac(key, b"launcher", hidden)):
            return _hidden(key, hidden)
    raise CallError("what answers the agent's call is not the launcher")


def call(endpoints: str, output: IO[bytes]) -> tuple[socket.socket, bytes]:
    """Connects an agent to its launcher.

    Args:
        endpoints: of the launcher, "host:port" with commas between them.
        output: the agent's standard output.

    Returns:
        The connection, on which the sealed order comes, and the key.

    Raises:
        StoreError: there is no connection.
    """
    key = secrets.token_bytes(KEY_BYTES)
    output.write(KEY_MARK + key.hex().encode() + b"\n")
    output.flush()
    _, connection = connect(endpoints.split(","))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.settimeout(None)
    connection.sendall(_mac(key, b"agent"))
    return connection, key


class ExpectedCall:
    """The launcher's end: listens for one call, and then is a connection.

    Args:
        addresses: where the agent reaches the launcher.

    Raises:
        NetworkError: nothing can listen there.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        address = listening_address(addresses)
        try:
            self._listener = socket.create_server(
                (address, 0),
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                dualstack_ipv6=address == "::",
            )
        except OSError as error:
            raise NetworkError(f"nothing can listen on {address}: {error.strerror}") from None
        self._lock = threading.Lock()  # what is sent, in its order
        self._connection: socket.socket | None = None
        self._untold = b""
        self._closed = False
        self.endpoints = store_endpoints(",".join(addresses), self._listener.getsockname()[1])

    def answer(self, output: IO[bytes], order: bytes) -> None:
        """Waits for the agent and gives it its order.

        Args:
            output: of the agent, of which `KEY_MARK` has been read.
            order: what it gets.

        Raises:
            CallError: it does not call, or ends before it does.
        """
        try:
            key = bytes.fromhex(output.readline(2 * KEY_BYTES + 1).decode())
            connection = self._accept(key, output)
            self._listener.close()
            self._give(connection, seal(key, order))
        except (OSError, ValueError) as error:
            raise CallError(f"the agent's call has failed: {error}") from None

    def _accept(self, key: bytes, output: IO[bytes]) -> socket.socket:
        deadline = time.monotonic() + _CALL_SECONDS
        expected = _mac(key, b"agent")
        self._listener.settimeout(0.0)
        with (
            selectors.DefaultSelector() as selector,
            contextlib.closing(Callers(selector, _PROOF_BYTES, _MOST_CALLERS)) as callers,
        ):
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(output, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                ready = [found.fileobj for found, _ in selector.select(left)] if left > 0 else []
                if not ready:
                    raise CallError("the agent does not call")
                # Until it has its order the agent itself says nothing more.
                if output in ready and not os.read(output.fileno(), _CHUNK):
                    raise CallError("the agent has ended")
                for connection in callers.among(ready):
                    heard = callers.hear(connection)
                    if heard is not None and hmac.compare_digest(heard[1], expected):
                        connection.settimeout(_ORDER_SECONDS)
                        return connection
                    if heard is not None:
                        connection.close()
                if self._listener in ready:
                    callers.let_in(self._listener)

    def _give(self, connection: socket.socket, order: bytes) -> None:
        """Sends the order, and what was to be said after it before there was a connection."""
        with self._lock:
            self._connection = connection
            if self._closed:  # before `close` could see the connection
                connection.close()
                raise CallError("nobody waits for the agent any more")
            connection.sendall(order + self._untold)

    def send(self, line: bytes) -> None:
        """Tells the agent something more, after its order; nobody where it has gone."""
        with self._lock, contextlib.suppress(OSError):
            if self._connection is None:
                self._untold += line
            else:
                self._connection.sendall(line)

    def close(self) -> None:
        """Hangs up; the agent ends its workers then."""
        self._closed = True
        for end in (self._listener, self._connection):
            if end is not None:
                with contextlib.suppress(OSError):  # it is gone already
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
