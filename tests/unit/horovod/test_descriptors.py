"""The limit of open files, and how many ranks may knock at the store at once."""

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from horovod.runner.descriptors import PER_RANK, allow_descriptors
from horovod.runner.rendezvous import RendezvousServer


@pytest.fixture
def soft_limit() -> Iterator[int]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(256, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, before[1]))
    yield low
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_follows_the_ranks(soft_limit: int) -> None:
    assert allow_descriptors(2) == ""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == soft_limit
    assert allow_descriptors(200) == ""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > PER_RANK * 200
    said = allow_descriptors(hard)
    assert f"its hard limit is {hard}" in said
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_limit_that_cannot_be_raised_is_told(
    soft_limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    said = allow_descriptors(200)
    monkeypatch.undo()
    assert f"its limit of {soft_limit} stays (not allowed to raise maximum limit)" in said


def test_many_ranks_may_connect_before_the_first_is_served() -> None:
    with contextlib.closing(RendezvousServer(b"secret", "127.0.0.1")) as store:
        listener = next(part for part in vars(store).values() if isinstance(part, socket.socket))
        # tcpi_sacked: of a listener, how many connections may wait.
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
        (backlog,) = struct.unpack_from("I", info, 8 + 4 * 5)
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert backlog == min(most, 4096)
