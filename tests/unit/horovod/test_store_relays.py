"""Somebody between a rank and the store, who passes the proofs on and changes the rest."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.store_client import StoreClient, StoreError
from horovod.runner.store_messages import DIGEST_BYTES, HELLO_BYTES, NONCE_BYTES, OK

SECRET = bytes(range(32))
PATIENCE = 20.0  # seconds until a test that hangs is given up
KEY, VALUE = b"key", b"what the store has"
REPLY_BYTES = 1 + 4 + len(VALUE) + DIGEST_BYTES

Change = Callable[[list[bytes]], bytes]


def receive(connection: socket.socket, count: int) -> bytes:
    return connection.recv(count, socket.MSG_WAITALL)


@contextmanager
def relay(store: RendezvousServer, change: Change) -> Iterator[str]:
    """An address at which replies are passed on as `change` makes them of all that have come."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pass_on() -> None:
            client, _ = listener.accept()
            with client, socket.create_connection((store.address, store.port)) as server:
                client.sendall(receive(server, NONCE_BYTES))
                server.sendall(receive(client, HELLO_BYTES))
                client.sendall(receive(server, DIGEST_BYTES))
                replies: list[bytes] = []
                while request := client.recv(1 << 16):
                    server.sendall(request)
                    replies.append(receive(server, REPLY_BYTES))
                    client.sendall(change(replies))

        thread = threading.Thread(target=pass_on, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(PATIENCE)


@pytest.fixture
def store() -> Iterator[RendezvousServer]:
    server = RendezvousServer(SECRET, "127.0.0.1")
    server.put(KEY, VALUE)
    yield server
    server.close()


def test_what_is_passed_on_unchanged_is_believed(store: RendezvousServer) -> None:
    with (
        relay(store, lambda replies: replies[-1]) as address,
        closing(StoreClient(address, SECRET, PATIENCE)) as client,
    ):
        assert [client.get(KEY, 1), client.get(KEY, 1)] == [VALUE, VALUE]


def other_value(replies: list[bytes]) -> bytes:
    return replies[-1].replace(b"store", b"relay")


def no_value(replies: list[bytes]) -> bytes:
    return b"\1" + replies[-1][-DIGEST_BYTES:]


def short_value(replies: list[bytes]) -> bytes:
    return struct.pack("<BI", OK, 4) + VALUE[:4] + replies[-1][-DIGEST_BYTES:]


def huge_value(_: list[bytes]) -> bytes:
    return struct.pack("<BI", OK, 0xFFFFFFFF)


@pytest.mark.parametrize("change", [other_value, no_value, short_value, huge_value])
def test_changed_replies_are_refused(store: RendezvousServer, change: Change) -> None:
    with (
        relay(store, change) as address,
        closing(StoreClient(address, SECRET, PATIENCE)) as client,
        pytest.raises(StoreError, match="has changed what the store sent"),
    ):
        client.get(KEY, 1)


def test_repeated_replies_are_refused(store: RendezvousServer) -> None:
    with (
        relay(store, lambda replies: replies[0]) as address,
        closing(StoreClient(address, SECRET, PATIENCE)) as client,
    ):
        assert client.get(KEY, 1) == VALUE
        with pytest.raises(StoreError, match="has changed what the store sent"):
            client.get(KEY, 1)
