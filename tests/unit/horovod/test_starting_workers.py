"""Starting many workers takes long: who has them ended, or one of them that fails, stops it."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from collective.launching import wait_until_gone
from horovod.runner import job
from horovod.runner.hosts import HostInfo, get_host_assignments
from horovod.runner.job import Job, run_job
from horovod.runner.processes import Guardian
from horovod.runner.ssh_options import SshOptions
from horovod.runner.workers import started_beside

PATIENCE = 60.0  # seconds until a test that hangs is given up
RANKS = 4

Started = list["subprocess.Popen[bytes]"]
AfterTheFirst = Callable[[Callable[[int], None]], Started]


@pytest.fixture
def after_the_first(monkeypatch: pytest.MonkeyPatch) -> AfterTheFirst:
    """Does something with the first worker's number before the second one is started.

    Returns the workers that have been started.
    """

    def install(work: Callable[[int], None]) -> Started:
        spawn = subprocess.Popen
        workers: Started = []

        def note(arguments: list[str], **options: object) -> "subprocess.Popen[bytes]":
            is_worker = "horovod.runner.guardian" not in arguments
            if is_worker and len(workers) == 1:
                work(workers[0].pid)
            process = spawn(arguments, **options)  # type: ignore[call-overload]
            if is_worker:
                workers.append(process)
            return process  # type: ignore[no-any-return]

        monkeypatch.setattr(subprocess, "Popen", note)
        return workers

    return install


def job_of(program: str) -> Job:
    slots = get_host_assignments([HostInfo("localhost", RANKS)], RANKS)
    command = [sys.executable, "-c", program]
    return Job(command, slots, os.environ, Path.cwd(), SshOptions(None, None))


SLEEPS = "import signal; signal.pause()"


def test_a_signal_stops_it(
    after_the_first: AfterTheFirst,
) -> None:
    def interrupt(first: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until_gone(first)

    workers = after_the_first(interrupt)
    assert run_job(job_of(SLEEPS)) == 128 + signal.SIGTERM
    assert len(workers) <= 2  # the second one was being started
    assert all(worker.returncode == -signal.SIGKILL for worker in workers[1:])


def test_a_worker_that_fails_stops_it(
    monkeypatch: pytest.MonkeyPatch,
    after_the_first: AfterTheFirst,
) -> None:
    ending = threading.Event()
    end_all = job.Supervision._end_all

    def note(supervision: job.Supervision, *, kill: bool) -> None:
        end_all(supervision, kill=kill)
        supervision._enders.wait()
        ending.set()

    monkeypatch.setattr(job, "FAILURE_SECONDS", 0.0)
    monkeypatch.setattr(job.Supervision, "_end_all", note)
    workers = after_the_first(lambda _: None if ending.wait(PATIENCE) else pytest.fail("ignored"))
    assert run_job(job_of("import sys; sys.exit(5)")) == 5
    assert len(workers) <= 2


def test_what_goes_wrong_in_it_leaves_the_job(
    after_the_first: AfterTheFirst,
) -> None:
    def fail(_first: int) -> None:
        raise MemoryError

    workers = after_the_first(fail)
    with pytest.raises(MemoryError):
        run_job(job_of(SLEEPS))
    assert [worker.returncode for worker in workers] == [-signal.SIGKILL]


# Is killed before it can tell the guardian what it has started.
KILLED = """
import os, pathlib, signal, sys
from horovod.runner import processes
def die(guardian, sign, session):
    print(session, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
processes.Guardian.note = die
program = (sys.executable, "-c", "import signal; signal.pause()")
command = processes.Command(0, program, dict(os.environ), pathlib.Path.cwd())
processes.LocalWorkers([command], print, print).start()
"""


def test_a_worker_ends_whose_launcher_is_killed_while_it_starts_it() -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, timeout=PATIENCE, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    wait_until_gone(int(killed.stdout))


def test_the_guardian_is_found_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "a b" / "horovod" / "runner"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "guardian.py").write_text(f"open({str(tmp_path / 'found')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "a b")
    Guardian().dismiss()
    assert (tmp_path / "found").exists()


class Group:
    """Workers that are ended when something goes wrong."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()

    def start(self) -> None:
        self.calls.put(f"start on {threading.current_thread() is threading.main_thread()}")

    def stop(self) -> None:
        raise AssertionError

    def stop_one(self, _worker: int) -> None:
        raise AssertionError

    def kill(self) -> None:
        self.calls.put("kill")

    gone = False


@pytest.mark.parametrize("room", [True, False])
def test_without_room_for_a_thread_they_are_started_first(
    monkeypatch: pytest.MonkeyPatch, *, room: bool
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if not room:
        monkeypatch.setattr(threading.Thread, "start", refuse)
    group = Group()
    with started_beside([group], lambda error: pytest.fail(str(error))):
        assert group.calls.get(timeout=PATIENCE) == f"start on {not room}"
    assert group.calls.empty()
