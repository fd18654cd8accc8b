"""An agent's call for its order: both ends, in one process, with a pipe for the agent's output."""

import contextlib
import errno
import io
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import pytest

from horovod.runner import call_back
from horovod.runner.call_back import KEY_MARK, CallError, ExpectedCall, call, unseal

PATIENCE = 60.0  # seconds until a test that hangs is given up


@dataclass
class Launcher:
    """The end that is called, and what its `answer` came to."""

    expected: ExpectedCall
    output: IO[bytes]
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _answer(self) -> None:
        with self.output:
            assert self.output.read(len(KEY_MARK)) == KEY_MARK
            try:
                self.expected.answer(self.output, b"the order\n")
            except CallError as error:
                self.refusals.append(str(error))


@pytest.fixture
def ends() -> Iterator[tuple[Launcher, IO[bytes]]]:
    """The launcher, and where the agent's output goes."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as output:
        launcher = Launcher(ExpectedCall(["127.0.0.1"]), os.fdopen(reader, "rb"))
        with contextlib.closing(launcher.expected):
            yield launcher, output


def address_of(expected: ExpectedCall) -> tuple[str, int]:
    host, _, port = expected.endpoints.rpartition(":")
    return host, int(port)


def test_lines_from_before_the_call_come_after_the_order(ends: tuple[Launcher, IO[bytes]]) -> None:
    launcher, output = ends
    launcher.expected.send(b"stop 4\n")
    connection, key = call(launcher.expected.endpoints, output)
    launcher.start()
    launcher.wait()
    assert launcher.refusals == []
    launcher.expected.send(b"stop 5\n")
    launcher.expected.close()
    with connection, connection.makefile("rb") as lines:
        order, *others = lines
    assert unseal(key, order) == b"the order\n"
    assert others == [b"stop 4\n", b"stop 5\n"]


def test_nobody_else_can_call_once_the_agent_has(ends: tuple[Launcher, IO[bytes]]) -> None:
    launcher, output = ends
    connection, _ = call(launcher.expected.endpoints, output)
    launcher.start()
    launcher.wait()
    assert launcher.refusals == []
    with connection, pytest.raises(ConnectionRefusedError):
        socket.create_connection(address_of(launcher.expected), PATIENCE)


def test_output_between_the_key_and_the_call_is_passed_over(
    ends: tuple[Launcher, IO[bytes]],
) -> None:
    launcher, output = ends

    class Chatty(io.BytesIO):
        """Writes more than a pipe holds, so that it has been read when the agent calls."""

        def write(self, data: object, /) -> int:
            assert isinstance(data, bytes)
            return output.write(data + b"a warning\n" * 100_000)

        def flush(self) -> None:
            output.flush()

    launcher.start()
    connection, _ = call(launcher.expected.endpoints, Chatty())
    launcher.wait()
    connection.close()
    assert launcher.refusals == []


@pytest.mark.parametrize("said", [b"", b"x" * 31, b"x" * 32, b"x" * 1000])
def test_strangers_do_not_keep_the_agent_waiting(
    ends: tuple[Launcher, IO[bytes]], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(call_back, "_CALL_SECONDS", 30.0)
    launcher, output = ends
    with contextlib.ExitStack() as strangers:
        for _ in range(100):  # more than may wait at a time
            stranger = socket.create_connection(address_of(launcher.expected), PATIENCE)
            strangers.enter_context(stranger).sendall(said)
        connection, key = call(launcher.expected.endpoints, output)
        launcher.start()
        launcher.wait()
        assert launcher.refusals == []
        with connection:
            assert unseal(key, connection.recv(4096)) == b"the order\n"


def test_who_has_waited_longest_goes_when_no_descriptor_is_free(
    ends: tuple[Launcher, IO[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, output = ends
    accepted: list[socket.socket] = []
    accept = socket.socket.accept

    def accept_three_at_most(listener: socket.socket) -> tuple[socket.socket, object]:
        if sum(connection.fileno() >= 0 for connection in accepted) == 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        connection, address = accept(listener)
        accepted.append(connection)
        return connection, address

    monkeypatch.setattr(socket.socket, "accept", accept_three_at_most)
    with contextlib.ExitStack() as strangers:
        for _ in range(5):
            stranger = socket.create_connection(address_of(launcher.expected), PATIENCE)
            strangers.enter_context(stranger)
        connection, _ = call(launcher.expected.endpoints, output)
        launcher.start()
        launcher.wait()
        connection.close()
    assert launcher.refusals == []
    assert len(accepted) == 6


def test_an_agent_that_ends_before_it_calls_is_not_waited_for(
    ends: tuple[Launcher, IO[bytes]],
) -> None:
    launcher, output = ends
    output.write(KEY_MARK + b"ab" * 32 + b"\na last word\n")
    output.close()
    launcher.start()
    launcher.wait()
    assert launcher.refusals == ["the agent has ended"]


def test_an_agent_that_calls_too_late_is_hung_up_on(ends: tuple[Launcher, IO[bytes]]) -> None:
    launcher, output = ends
    connection, _ = call(launcher.expected.endpoints, output)
    launcher.expected.close()
    launcher.start()
    launcher.wait()
    assert len(launcher.refusals) == 1
    with connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""
