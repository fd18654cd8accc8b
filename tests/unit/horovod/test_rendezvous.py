"""The store, over real sockets, with clients of all kinds."""

import contextlib
import hmac
import secrets
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from horovod.runner import rendezvous, store_messages
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.store_client import StoreClient
from horovod.runner.store_messages import GET, MAGIC, PUT, sign

SECRET = bytes(range(32))
PATIENCE = 20.0  # seconds until a test that hangs is given up


@pytest.fixture
def store() -> Iterator[RendezvousServer]:
    server = RendezvousServer(SECRET, "127.0.0.1")
    yield server
    server.close()


Connect = Callable[..., "Client"]


@pytest.fixture
def connect(store: RendezvousServer) -> Iterator[Connect]:
    with contextlib.ExitStack() as clients:

        def connect_one(secret: bytes = SECRET) -> Client:
            return clients.enter_context(contextlib.closing(Client(store, secret)))

        yield connect_one


class Client:
    """The other side of the protocol, written from its description."""

    def __init__(self, store: RendezvousServer, secret: bytes) -> None:
        self.socket = socket.create_connection((store.address, store.port), PATIENCE)
        theirs = self.receive(16)
        ours = secrets.token_bytes(16)
        self.socket.sendall(MAGIC + ours + sign(secret, b"client", theirs, ours))
        self.proof = self.socket.recv(32)
        self.trusted = self.proof == sign(secret, b"server", ours, theirs)
        key_of = theirs + ours + b"store"
        self.key = hmac.digest(secret, b"messages" + key_of, "sha256")
        self.sent = self.received = 0

    def send(self, message: bytes) -> None:
        proved = b"client" + struct.pack("<Q", self.sent) + message
        self.sent += 1
        self.socket.sendall(message + hmac.digest(self.key, proved, "sha256"))

    def reply(self, *, with_value: bool) -> bytes | None:
        message = self.receive(1)
        if with_value and message == b"\0":
            message += self.receive(4)
            message += self.receive(struct.unpack("<I", message[1:])[0])
        proved = b"server" + struct.pack("<Q", self.received) + message
        self.received += 1
        assert self.receive(32) == hmac.digest(self.key, proved, "sha256")
        return None if message == b"\1" else message[5:]

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise ConnectionError(f"hung up after {len(data)} of {count} bytes")
            data += chunk
        return data

    def put(self, key: bytes, value: bytes) -> None:
        self.send(struct.pack("<BI", PUT, len(key)) + key + struct.pack("<I", len(value)) + value)
        assert self.reply(with_value=False) == b""

    def ask(self, key: bytes, milliseconds: int) -> None:
        self.send(struct.pack("<BI", GET, len(key)) + key + struct.pack("<I", milliseconds))

    def get(self, key: bytes, milliseconds: int = 10_000) -> bytes | None:
        self.ask(key, milliseconds)
        return self.reply(with_value=True)

    def close(self) -> None:
        self.socket.close()

    def hung_up(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def test_what_one_puts_another_gets(connect: Connect) -> None:
    writer, reader = connect(), connect()
    assert writer.trusted
    writer.put(b"rank0", b"10.0.0.1:99")
    writer.put(b"empty", b"")
    assert reader.get(b"rank0") == b"10.0.0.1:99"
    assert reader.get(b"empty") == b""
    writer.put(b"rank0", b"new")
    assert reader.get(b"rank0") == b"new"


def test_get_waits_for_put(connect: Connect) -> None:
    reader = connect()
    reader.ask(b"later", 60_000)
    connect().put(b"later", b"here")
    assert reader.reply(with_value=True) == b"here"


def test_get_gives_up_in_time(connect: Connect) -> None:
    client = connect()
    assert client.get(b"never", 1) is None
    assert client.get(b"never", 0) is None


def test_a_wrong_secret_is_refused(connect: Connect) -> None:
    stranger = connect(b"x" * 32)
    assert stranger.proof == b""
    assert connect().trusted


def test_a_recorded_proof_does_not_help(store: RendezvousServer) -> None:
    """The proof holds for the server's nonce of one connection alone."""
    recorded: list[bytes] = []
    with socket.create_connection((store.address, store.port), PATIENCE) as first:
        theirs = first.recv(16)
        hello = MAGIC + b"n" * 16 + sign(SECRET, b"client", theirs, b"n" * 16)
        first.sendall(hello)
        recorded.append(hello)
        assert len(first.recv(32)) == 32
    with socket.create_connection((store.address, store.port), PATIENCE) as replay:
        replay.recv(16)
        replay.sendall(recorded[0])
        assert replay.recv(32) == b""


@pytest.mark.parametrize(
    "request_bytes",
    [
        struct.pack("<BI", PUT, store_messages.MAX_KEY + 1),
        struct.pack("<BI", GET, 0xFFFFFFFF),
        struct.pack("<BI", PUT, 1) + b"k" + struct.pack("<I", store_messages.MAX_VALUE + 1),
        struct.pack("<BI", 9, 1) + b"k",
    ],
    ids=["long key", "huge key", "long value", "unknown request"],
)
def test_what_breaks_the_rules_is_cut_off(connect: Connect, request_bytes: bytes) -> None:
    client = connect()
    client.socket.sendall(request_bytes)
    assert client.hung_up()
    assert connect().trusted


def test_limits_themselves_are_allowed(connect: Connect) -> None:
    client = connect()
    key, value = b"k" * store_messages.MAX_KEY, b"v" * store_messages.MAX_VALUE
    client.put(key, value)
    assert client.get(key) == value


def test_a_truncated_request_changes_nothing(connect: Connect) -> None:
    client = connect()
    client.socket.sendall(struct.pack("<BI", PUT, 3) + b"key" + struct.pack("<I", 10) + b"half")
    client.socket.close()
    assert connect().get(b"key", 0) is None


def test_a_request_that_is_changed_or_repeated_on_the_way_does_nothing(connect: Connect) -> None:
    changed, repeated = connect(), connect()
    put = struct.pack("<BI", PUT, 3) + b"key" + struct.pack("<I", 4)
    proof = hmac.digest(changed.key, b"client" + struct.pack("<Q", 0) + put + b"good", "sha256")
    changed.socket.sendall(put + b"evil" + proof)
    assert changed.hung_up()
    assert repeated.get(b"key", 0) is None
    repeated.sent -= 1
    repeated.ask(b"key", 0)
    assert repeated.hung_up()


def test_strangers_who_say_nothing_are_cut_off(
    store: RendezvousServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "HANDSHAKE_SECONDS", 0.1)
    with socket.create_connection((store.address, store.port), PATIENCE) as silent:
        assert len(silent.recv(16)) == 16
        assert silent.recv(1) == b""


def test_what_a_client_puts_is_told_before_it_is_answered() -> None:
    told, may_go = threading.Event(), threading.Event()

    def on_put(_key: bytes, _value: bytes) -> None:
        told.set()
        may_go.wait(PATIENCE)

    server = RendezvousServer(SECRET, "127.0.0.1", on_put)
    with contextlib.closing(server), contextlib.closing(Client(server, SECRET)) as client:
        client.send(struct.pack("<BI", PUT, 1) + b"k" + struct.pack("<I", 0))
        assert told.wait(PATIENCE)
        client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.receive(1)
        may_go.set()
        client.socket.settimeout(PATIENCE)
        assert client.reply(with_value=False) == b""


def test_a_value_wakes_nobody_who_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    asleep = threading.Event()

    class Counting(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            asleep.set()
            return super().wait(timeout)

        def notify_all(self) -> None:
            woken.append(len(getattr(self, "_waiters")))  # noqa: B009 - typeshed has it not
            super().notify_all()

    locks = SimpleNamespace(Condition=Counting, Lock=threading.Lock)
    monkeypatch.setattr(rendezvous, "threading", locks)
    server = RendezvousServer(SECRET, "127.0.0.1")
    with contextlib.closing(server), contextlib.closing(Client(server, SECRET)) as client:
        client.ask(b"later", 60_000)
        assert asleep.wait(PATIENCE)
        for number in range(8):
            server.put(b"other/%d" % number, b"")
        assert sum(woken) == 0
        server.put(b"later", b"")
        assert client.reply(with_value=True) == b""
        assert sum(woken) == 1


def test_strangers_get_no_thread(store: RendezvousServer, connect: Connect) -> None:
    before = set(threading.enumerate())
    with contextlib.ExitStack() as strangers:
        for _ in range(20):
            stranger = socket.create_connection((store.address, store.port), PATIENCE)
            assert len(strangers.enter_context(stranger).recv(16)) == 16
        assert set(threading.enumerate()) <= before
        connect().put(b"key", b"value")


def test_closing_releases_those_who_wait() -> None:
    server = RendezvousServer(SECRET, "127.0.0.1")
    with contextlib.closing(Client(server, SECRET)) as client:
        client.ask(b"never", 600_000)
        server.close()
        assert client.hung_up()


CROWDED = """
import resource, sys
from horovod.runner import rendezvous, store_messages
from horovod.runner.rendezvous import RendezvousServer
rendezvous.HANDSHAKE_SECONDS = 600.0
store = RendezvousServer(bytes(range(32)), "127.0.0.1")
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
print(store.port, flush=True)
sys.stdin.read()
"""


def test_more_strangers_than_there_are_descriptors_do_not_end_the_store() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CROWDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        address = ("127.0.0.1", int(process.stdout.readline()))
        with contextlib.ExitStack() as strangers:
            connections = [
                strangers.enter_context(socket.create_connection(address, PATIENCE))
                for _ in range(32)
            ]
            with contextlib.suppress(ConnectionResetError):
                while connections[0].recv(16):
                    pass
            # The one that had been silent longest went; the others stay.
            with contextlib.closing(StoreClient(f"127.0.0.1:{address[1]}", SECRET)) as friend:
                friend.put(b"key", b"value")
        process.communicate()
