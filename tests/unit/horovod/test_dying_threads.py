"""Threads of the launcher that end by an unexpected exception: what they serve ends, too."""

import contextlib
import errno
import os
import queue
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collective.launching import wait_until_gone
from horovod.runner import mpirun_process, rendezvous
from horovod.runner.callers import Callers
from horovod.runner.elastic.discovery import FixedHosts
from horovod.runner.elastic.job import ElasticJob, run_elastic_job
from horovod.runner.elastic.limits import Limits
from horovod.runner.hosts import HostInfo, get_host_assignments
from horovod.runner.job import Job, run_job
from horovod.runner.output import Output
from horovod.runner.process_groups import Sessions
from horovod.runner.processes import CANNOT_START, Command, LocalWorkers
from horovod.runner.remote import (
    EXIT,
    GREETING,
    Order,
    read_exit,
    read_frames,
    skip_preamble,
)
from horovod.runner.ssh_options import SshOptions
from horovod.runner.store_client import StoreClient, StoreError

SECRET = bytes(range(32))
PATIENCE = 60.0  # seconds until a test that hangs is given up
SLEEPER = (sys.executable, "-c", "import signal; signal.pause()")

Tracebacks = list[threading.ExceptHookArgs]


@pytest.fixture
def tracebacks(monkeypatch: pytest.MonkeyPatch) -> Tracebacks:
    """What threads that ended by an exception have left for the user."""
    told: Tracebacks = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    return told


def fail(*_: object) -> None:
    raise RuntimeError("nobody has thought of this")


class Reports:
    """What is said of workers."""

    def __init__(self) -> None:
        self.text: dict[int, str] = {}
        self.ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def on_output(self, rank: int, _stream: str, data: bytes) -> None:
        self.text[rank] = self.text.get(rank, "") + data.decode()

    def on_exit(self, rank: int, code: int) -> None:
        self.ends.put((rank, code))


def test_a_worker_whose_watcher_fails_is_reported_and_its_session_ended(
    monkeypatch: pytest.MonkeyPatch, tracebacks: Tracebacks
) -> None:
    monkeypatch.setattr(Sessions, "end", fail)
    reports = Reports()
    ending = (
        "import os, subprocess, sys;"
        # At once, whatever PYTHONUNBUFFERED says: the launcher's words come meanwhile.
        r"os.write(1, b'%d\n' % subprocess.Popen(sys.argv[1:]).pid); os._exit(3)"
    )
    program = (sys.executable, "-c", ending, *SLEEPER)
    command = Command(4, program, dict(os.environ), Path.cwd())
    workers = LocalWorkers([command], reports.on_output, reports.on_exit)
    workers.start()
    assert reports.ends.get(timeout=PATIENCE) == (4, CANNOT_START)
    # They come from two threads, in any order.
    child, reason = sorted(reports.text[4].splitlines())
    assert reason.startswith("the launcher cannot watch this worker any more")
    assert "nobody has thought of this" in reason
    wait_until_gone(int(child))
    workers.stop()
    assert [str(each.exc_value) for each in tracebacks] == ["nobody has thought of this"]
    assert reports.ends.empty()


def test_a_worker_is_ended_where_processes_cannot_be_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", refuse)
    reports = Reports()
    command = Command(4, SLEEPER, dict(os.environ), Path.cwd())
    workers = LocalWorkers([command], reports.on_output, reports.on_exit)
    workers.start()
    workers.stop()
    assert reports.ends.get(timeout=PATIENCE) == (4, 128 + signal.SIGTERM)


def test_a_job_ends_though_what_its_ranks_have_left_cannot_be_shown(
    monkeypatch: pytest.MonkeyPatch, tracebacks: Tracebacks
) -> None:
    monkeypatch.setattr(Output, "finish", fail)
    slots = get_host_assignments([HostInfo("localhost", 2)], 2)
    job = Job(("true",), slots, os.environ, Path.cwd(), SshOptions(None, None))
    assert run_job(job) == 0
    assert len(tracebacks) == 2


def test_an_elastic_job_ends_when_the_search_for_hosts_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    discovery = FixedHosts({"localhost": 1})
    monkeypatch.setattr(discovery, "find_available_hosts_and_slots", fail)
    job = Job(("true",), (), os.environ, Path.cwd(), SshOptions(None, None))
    elastic = ElasticJob(job, discovery, Limits(1, 1, None, None, PATIENCE))
    with pytest.raises(RuntimeError, match="nobody has thought of this"):
        run_elastic_job(elastic)


def test_an_mpirun_whose_watcher_fails_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tracebacks: Tracebacks
) -> None:
    wait = subprocess.Popen.wait
    failed: list[subprocess.Popen[bytes]] = []

    def wait_or_fail(process: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        if threading.current_thread() is not threading.main_thread():
            failed.append(process)
            fail()
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_or_fail)
    assert mpirun_process.run_to_end(["sh", "-c", "exit 3"], os.environ) == (3, None)
    assert len(tracebacks) == 1
    (mpirun,) = failed
    assert mpirun.returncode == 3


def test_an_agent_that_does_not_understand_its_launcher_ends_its_workers() -> None:
    order = Order(SLEEPER, os.sep, {}, {4: {}, 5: {}})
    with subprocess.Popen(
        [sys.executable, "-m", "horovod.runner.remote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        assert agent.stderr is not None
        agent.stdin.write(order.encode() + b"stop rank four\n")
        agent.stdin.flush()  # and is not closed: the launcher waits
        assert skip_preamble(agent.stdout, GREETING)
        ends = {
            rank: read_exit(code) for kind, rank, code in read_frames(agent.stdout) if kind == EXIT
        }
        assert b"ValueError" in agent.stderr.read()
    assert ends == dict.fromkeys((4, 5), 128 + signal.SIGTERM)


def test_who_cannot_be_heard_is_refused_and_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, tracebacks: Tracebacks
) -> None:
    monkeypatch.setattr(rendezvous.RendezvousServer, "_let_some_in", fail)
    with (
        contextlib.closing(rendezvous.RendezvousServer(SECRET, "127.0.0.1")) as store,
        pytest.raises(StoreError),
    ):
        StoreClient(f"127.0.0.1:{store.port}", SECRET, 10 * PATIENCE)
    assert len(tracebacks) == 1


def test_a_caller_for_whom_there_is_no_room_is_hung_up_on_alone() -> None:
    class Full(selectors.SelectSelector):
        """Has no room."""

        def register(self, *_: object) -> selectors.SelectorKey:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as caller,
        Full() as selector,
        contextlib.closing(Callers(selector, 4, 4)) as callers,
    ):
        with pytest.raises(OSError, match="No space left"):
            callers.let_in(listener)
        assert callers.drop_silent(0) is None
        assert caller.recv(1) == b""
