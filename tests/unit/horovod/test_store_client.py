"""The client of a store that is busy, suspended, full or gone."""

import contextlib
import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from horovod import _launcher_store
from horovod.common.exceptions import HorovodInternalError
from horovod.runner import store_client
from horovod.runner.store_client import StoreClient, StoreError
from horovod.runner.store_messages import DIGEST_BYTES, MAGIC, NONCE_BYTES, sign

SECRET = bytes(range(32))
PATIENCE = 30.0  # seconds until a test that hangs is given up
SHORT = 0.1  # seconds, in place of what a store has to answer in while others might
PAUSE = 0.8  # seconds that the store is suspended

SERVER = """
import sys
from horovod.runner.rendezvous import RendezvousServer
store = RendezvousServer(bytes(range(32)), "127.0.0.1")
print(store.port, flush=True)
sys.stdin.read()
"""


class Store:
    """A store in a process of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self._process = process
        self.address = f"127.0.0.1:{int(process.stdout.readline())}"

    def suspend(self) -> None:
        """Stops it for a moment."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        threading.Timer(PAUSE, self._process.send_signal, [signal.SIGCONT]).start()


@pytest.fixture
def store() -> Iterator[Store]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Store(process)
        process.communicate()


@pytest.mark.parametrize("others", ["", "127.0.0.1:1,"])
def test_a_suspended_store_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, others: str
) -> None:
    monkeypatch.setattr(store_client, "HANDSHAKE_SECONDS", SHORT)
    store.suspend()
    with contextlib.closing(StoreClient(others + store.address, SECRET, PATIENCE)) as client:
        store.suspend()
        client.put(b"key", b"value")
        store.suspend()
        assert client.get(b"key", 0) == b"value"


def test_a_suspended_store_is_asked_again_after_another_that_is_silent(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_client, "HANDSHAKE_SECONDS", SHORT)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store.suspend()
        addresses = f"{store.address},127.0.0.1:{silent.getsockname()[1]}"
        StoreClient(addresses, SECRET, PATIENCE).close()


def test_a_store_that_stays_silent_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StoreError, match=f"^the job's store at {address} does not answer$"):
            StoreClient(address, SECRET, SHORT)


def test_a_store_that_is_gone_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bytes, int]] = []

    def refuse(address: tuple[bytes, int], _seconds: float) -> socket.socket:
        asked.append(address)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(StoreError, match="Connection refused"):
        StoreClient("127.0.0.1:1,[::1]:2", SECRET, PATIENCE)
    assert asked == [(b"127.0.0.1", 1), (b"::1", 2)]


# Run without a descriptor that is free.
WITHOUT_ROOM = """
import os, resource
from horovod.runner.store_client import StoreClient, StoreError
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        os.dup(0)
except OSError:
    pass
try:
    StoreClient("127.0.0.1:1,[::1]:1", bytes(32))
except StoreError as error:
    print(error)
"""


def test_a_process_without_descriptors_is_told_that() -> None:
    done = subprocess.run(
        (sys.executable, "-c", WITHOUT_ROOM), capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    reason = "[Errno 24] Too many open files"
    said = f"no connection to the job's launcher at 127.0.0.1:1: {reason}; [::1]:1: {reason}\n"
    assert done.stdout == said


# Run where the loopback interface is down; it comes up when nothing has been reached.
IN_NEW_NETWORK = """
import socket, subprocess
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.store_client import StoreClient
store = RendezvousServer(bytes(32), "0.0.0.0")
connect = socket.create_connection
def note(*arguments):
    try:
        return connect(*arguments)
    except OSError as error:
        print(error.strerror)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        raise
socket.create_connection = note
StoreClient(f"127.0.0.1:{store.port}", bytes(32)).close()
"""


def test_a_store_is_found_once_the_network_is_up() -> None:
    alone = ("unshare", "--net")
    if subprocess.run((*alone, "true"), stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("no namespaces here")
    done = subprocess.run(
        (*alone, sys.executable, "-c", IN_NEW_NETWORK), capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout) == ("", "Network is unreachable\n")


@pytest.mark.parametrize("number", sorted(store_client._PASSING))
@pytest.mark.parametrize("others", ["", "127.0.0.1:1,"])
def test_a_store_that_cannot_be_reached_for_a_moment_is_asked_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int, others: str
) -> None:
    monkeypatch.setattr(store_client, "_PAUSES", (0.0,))
    monkeypatch.setattr(store_client, "_LONGEST_PAUSE", 0.0)
    failures = iter([OSError(number, os.strerror(number))] * 3)
    connect = socket.create_connection
    own = store.address.rpartition(":")[2]

    def fail_at_first(address: Any, seconds: float) -> socket.socket:
        if address[1] == int(own) and (failure := next(failures, None)) is not None:
            raise failure
        return connect(address, seconds)

    monkeypatch.setattr(socket, "create_connection", fail_at_first)
    StoreClient(others + store.address, SECRET, PATIENCE).close()


def test_a_store_that_cannot_be_reached_at_all_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_address: tuple[bytes, int], _seconds: float) -> socket.socket:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(socket, "create_connection", fail)
    said = "^no connection to the job's launcher at 10.0.0.1:1: .*No route to host, tried for 0.1 s"
    with pytest.raises(StoreError, match=said):
        StoreClient("10.0.0.1:1", SECRET, SHORT)
    with pytest.raises(StoreError, match=said):
        StoreClient("10.0.0.1:1", SECRET, 1000 * PATIENCE, SHORT)
    environment = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "1",
        "_HOROVOD_SECRET_KEY": SECRET.hex(),
        "HOROVOD_START_TIMEOUT": str(SHORT),
        "HOROVOD_ELASTIC": "1",
        "HOROVOD_ELASTIC_WORKER": "0",
    }
    with pytest.raises(HorovodInternalError, match=said.removeprefix("^")):
        _launcher_store.take_place(environment, 0)


def test_the_next_address_does_not_wait_for_one_that_cannot_be_reached(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_client, "_PAUSES", (2 * PATIENCE,))
    connect = socket.create_connection

    def fail(address: Any, seconds: float) -> socket.socket:
        if address[1] == 1:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        return connect(address, seconds)

    monkeypatch.setattr(socket, "create_connection", fail)
    StoreClient(f"[fd00::1]:1,{store.address}", SECRET, PATIENCE).close()


def test_a_store_without_room_is_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_the_third() -> None:
            for _ in range(2):
                listener.accept()[0].close()
            connection, _ = listener.accept()
            with connection:
                nonce = secrets.token_bytes(NONCE_BYTES)
                connection.sendall(nonce)
                hello = connection.recv(4096, socket.MSG_PEEK)
                while len(hello) < len(MAGIC) + NONCE_BYTES + DIGEST_BYTES:
                    hello = connection.recv(4096, socket.MSG_PEEK)
                theirs = hello[len(MAGIC) :][:NONCE_BYTES]
                connection.sendall(sign(SECRET, b"server", theirs, nonce))

        server = threading.Thread(target=serve_the_third, daemon=True)
        server.start()
        StoreClient(f"127.0.0.1:{listener.getsockname()[1]}", SECRET, PATIENCE).close()
        server.join(PATIENCE)


def test_a_rank_that_cannot_say_that_it_calls_init_fails() -> None:
    environment = {
        "HOROVOD_RANK": "0",
        "HOROVOD_SIZE": "2",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "1",
        "_HOROVOD_SECRET_KEY": SECRET.hex(),
    }
    with pytest.raises(HorovodInternalError, match=r"cannot tell .*127\.0\.0\.1:1: .*refused"):
        _launcher_store.tell_joined(environment)
