"""What the launcher does when the system starts no more threads or processes."""

import contextlib
import errno
import io
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from horovod.runner import store_client
from horovod.runner.elastic.discovery import FixedHosts
from horovod.runner.elastic.driver import Driver
from horovod.runner.elastic.job import ElasticJob, run_elastic_job
from horovod.runner.elastic.limits import Limits
from horovod.runner.hosts import HostInfo, SlotInfo, get_host_assignments
from horovod.runner.job import Ended, Events, Job, Supervision, run_job
from horovod.runner.processes import CANNOT_START, Command, LocalWorkers
from horovod.runner.remote import EXIT, GREETING, Order, read_frames
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.ssh import RemoteWorkers
from horovod.runner.ssh_options import SshOptions
from horovod.runner.store_client import StoreClient, StoreError
from horovod.runner.threads import ThreadError
from horovod.runner.workers import killed_on_error

SECRET = bytes(range(32))
PATIENCE = 60.0  # seconds until a test that hangs is given up
REASON = "there is no room for another process or thread here; raise the limit that is met"

Refuse = Callable[..., None]
Started = list["subprocess.Popen[bytes]"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The processes that have been started, in their order."""
    processes: Started = []
    spawn = subprocess.Popen

    def note(*arguments: object, **options: object) -> "subprocess.Popen[bytes]":
        processes.append(spawn(*arguments, **options))  # type: ignore[call-overload]
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    return processes


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Lets no threads start that do the named work, but for the first few."""
    start = threading.Thread.start

    def install(work: str, allowed: int = 0) -> None:
        seen = 0

        def start_or_refuse(thread: threading.Thread) -> None:
            nonlocal seen
            if getattr(thread, "_target").__name__ == work:  # noqa: B009 - typeshed has it not
                seen += 1
                if seen > allowed:
                    raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_or_refuse)

    return install


class Reports:
    """What workers were said to have written, and how they were said to have ended."""

    def __init__(self) -> None:
        self.text: dict[int, str] = {}
        self.ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def on_output(self, rank: int, stream: str, data: bytes) -> None:
        self.text[rank] = self.text.get(rank, "") + f"{stream}: {data.decode()}"

    def on_exit(self, rank: int, code: int) -> None:
        self.ends.put((rank, code))


SLEEPER = (sys.executable, "-c", "import signal; signal.pause()")


def sleepers(count: int) -> list[Command]:
    return [Command(rank, SLEEPER, dict(os.environ), Path.cwd()) for rank in range(count)]


@pytest.mark.parametrize(
    ("work", "allowed", "what"),
    [
        ("_watch", 1, "a worker's watcher"),
        ("_pump", 2, "a thread for a worker's output"),
        ("_pump", 3, "a thread for a worker's output"),  # only its second one is refused
    ],
)
def test_a_worker_without_its_threads_is_killed_and_reported(
    refuse: Refuse, started: Started, work: str, allowed: int, what: str
) -> None:
    refuse(work, allowed)
    reports = Reports()
    workers = LocalWorkers(sleepers(2), reports.on_output, reports.on_exit)
    workers.start()
    assert reports.ends.get(timeout=PATIENCE) == (1, CANNOT_START)
    assert reports.text[1].startswith(f"stderr: cannot start {what}: {REASON}")
    guardian, first, second = started
    assert second.returncode == -signal.SIGKILL
    assert first.poll() is None
    workers.kill()
    assert reports.ends.get(timeout=PATIENCE) == (0, 128 + signal.SIGKILL)
    assert guardian.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_a_guardian_that_cannot_be_started_is_a_reason_for_all(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", fail)
    reports = Reports()
    LocalWorkers(sleepers(2), reports.on_output, reports.on_exit).start()
    for rank in (0, 1):
        assert reports.ends.get(timeout=PATIENCE) == (rank, CANNOT_START)
        assert reports.text[rank].startswith(f"stderr: cannot start a guardian: {REASON}")


@pytest.mark.parametrize(
    "work", ["tell", "_pass_messages", "_read_output", "_await_program", "_watch"]
)
def test_a_connection_without_its_threads_is_ended_and_its_workers_reported(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: str
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec cat\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    refuse(work)
    reports, said = Reports(), io.StringIO()
    order = Order(["true"], os.sep, {}, {4: {}, 5: {}})
    workers = RemoteWorkers(
        "elsewhere",
        SshOptions(None, None),
        order,
        reports.on_output,
        reports.on_exit,
        lambda text: (said.write(text), None)[1],
    )
    workers.start()
    ends = [reports.ends.get(timeout=PATIENCE) for _ in order.workers]
    assert ends == [(4, CANNOT_START), (5, CANNOT_START)]
    assert said.getvalue().startswith(
        f"cannot start a thread for the connection to elsewhere: {REASON}"
    )
    workers.stop()


AGENT = """
import sys, threading
from horovod.runner.remote import run_agent
def refuse(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
sys.exit(run_agent(0, 1))
"""


def test_an_agent_without_its_thread_reports_its_workers() -> None:
    order = Order(["true"], os.sep, {}, {4: {}, 5: {}})
    done = subprocess.run(
        [sys.executable, "-c", AGENT],
        input=order.encode(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == CANNOT_START
    assert done.stderr.decode().startswith(f"cannot start a thread of the agent: {REASON}")
    frames = read_frames(io.BytesIO(done.stdout.removeprefix(GREETING)))
    code = struct.pack("<i", CANNOT_START)
    assert list(frames) == [(EXIT, 4, code), (EXIT, 5, code)]


def test_a_connection_that_cannot_be_served_is_closed_and_the_next_one_is_served(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(store_client, "_PAUSES", ())  # and so asks once, however long that takes
    with contextlib.closing(RendezvousServer(SECRET, "127.0.0.1")) as store:
        address = f"127.0.0.1:{store.port}"
        refuse("_serve")
        for _ in range(2):
            with pytest.raises(StoreError, match="has hung up"):
                StoreClient(address, SECRET, PATIENCE)
        monkeypatch.undo()
        StoreClient(address, SECRET, PATIENCE).close()
    reason = f"horovodrun: cannot start a thread that serves a rank: {REASON}"
    assert capsys.readouterr().err.count(reason) == 1


def test_a_store_without_its_thread_is_refused(refuse: Refuse) -> None:
    refuse("_accept")
    with pytest.raises(ThreadError, match="cannot start the store's thread: there is no room"):
        RendezvousServer(SECRET, "127.0.0.1")


class Group:
    """The workers of a host that end at once."""

    def __init__(self, rank: int, events: Events) -> None:
        self._rank = rank
        self._events = events
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")
        self._events.put(Ended(self._rank, 0))

    def stop_one(self, worker: int) -> None:
        assert worker == self._rank
        self.stop()

    def kill(self) -> None:
        self.calls.append("kill")
        raise OSError("it cannot be reached")

    gone = False


def test_workers_are_ended_by_the_caller_when_no_thread_can(refuse: Refuse) -> None:
    refuse("stop")
    events: Events = queue.SimpleQueue()
    groups = [Group(rank, events) for rank in (1, 2)]
    events.put(Ended(0, 3))
    assert Supervision(groups, events, {0, 1, 2}).wait() == 3
    assert [group.calls for group in groups] == [["stop"], ["stop"]]


def test_an_exception_ends_all_workers() -> None:
    groups = [Group(rank, queue.SimpleQueue()) for rank in (0, 1)]
    with pytest.raises(OSError, match="cannot be reached"), killed_on_error(lambda: groups):
        raise MemoryError
    assert [group.calls for group in groups] == [["kill"], ["kill"]]


def job(slots: list[SlotInfo]) -> Job:
    return Job(SLEEPER, slots, os.environ, Path.cwd(), SshOptions(None, None))


def test_an_exception_that_leaves_a_job_ends_its_workers(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Supervision) -> int:
        while len(started) < 3:
            time.sleep(0.01)
        raise MemoryError

    monkeypatch.setattr(Supervision, "wait", fail)
    with pytest.raises(MemoryError):
        run_job(job(get_host_assignments([HostInfo("localhost", 2)], 2)))
    _, *workers = started  # the first one is the guardian
    assert [worker.returncode for worker in workers] == [-signal.SIGKILL] * 2


def test_an_exception_that_leaves_an_elastic_job_ends_its_workers(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = Driver.hosts_found

    def find_and_fail(driver: Driver, hosts: Mapping[str, int]) -> None:
        find(driver, hosts)
        while len(started) < 3:
            time.sleep(0.01)
        raise MemoryError

    monkeypatch.setattr(Driver, "hosts_found", find_and_fail)
    limits = Limits(start=2, least=2, most=2, resets=None, timeout=PATIENCE)
    with pytest.raises(MemoryError):
        run_elastic_job(ElasticJob(job([]), FixedHosts({"localhost": 2}), limits))
    _, *workers = started
    assert [worker.returncode for worker in workers] == [-signal.SIGKILL] * 2
