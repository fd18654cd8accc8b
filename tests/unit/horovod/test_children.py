"""Processes whose end is told, and those whose end nobody is told: never taken for a success."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from horovod.runner import mpirun_process
from horovod.runner.children import NOT_TOLD, EndNotToldError, await_end, ends_are_told
from horovod.runner.elastic.discovery import DiscoveryError, HostDiscoveryScript
from horovod.runner.processes import Command, LocalWorkers

PATIENCE = 60.0  # seconds until a test that hangs is given up
SUCCESS = [sys.executable, "-c", ""]


@pytest.fixture
def ignored() -> Iterator[None]:
    """Signals of children are ignored, as some parents have it."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("seconds", [None, PATIENCE])
@pytest.mark.parametrize(
    ("program", "code"),
    [("", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_an_end_is_told_as_popen_tells_it(program: str, code: int, seconds: float | None) -> None:
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        assert await_end(process, seconds) == code
        assert process.wait() == code


@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_an_end_is_told_where_a_filter_of_calls_refuses_to_look(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "waitid", refuse)
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as process:
        assert await_end(process, seconds) == 3


def test_a_process_that_runs_on_is_left_to_run() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            await_end(process, 0.0)
        assert process.poll() is None


@pytest.mark.usefixtures("ignored")
@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_an_end_that_is_not_told_is_no_success(seconds: float | None) -> None:
    with (
        subprocess.Popen(SUCCESS) as process,
        pytest.raises(EndNotToldError, match="SIGCHLD"),
    ):
        await_end(process, seconds)


@pytest.mark.usefixtures("ignored")
def test_a_worker_whose_end_is_not_told_has_failed() -> None:
    ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    said: list[bytes] = []
    command = Command(4, SUCCESS, dict(os.environ), Path.cwd())
    workers = LocalWorkers(
        [command],
        lambda _rank, _stream, text: said.append(text),
        lambda rank, code: ends.put((rank, code)),
    )
    workers.start()
    assert ends.get(timeout=PATIENCE) == (4, 1)
    assert said == [f"{NOT_TOLD}\n".encode()]


@pytest.mark.usefixtures("ignored")
def test_a_discovery_script_whose_end_is_not_told_has_not_answered() -> None:
    with pytest.raises(DiscoveryError, match="echo one:1: nobody knows how it has ended"):
        HostDiscoveryScript("echo one:1").find_available_hosts_and_slots()


@pytest.mark.usefixtures("ignored")
def test_an_mpirun_whose_end_is_not_told_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mpirun_process.run_to_end(SUCCESS, dict(os.environ)) == (1, None)
    assert capsys.readouterr().err == f"mpirun: {NOT_TOLD}\n"


@pytest.mark.usefixtures("ignored")
def test_ends_are_told_while_it_matters() -> None:
    with ends_are_told():
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN


def test_a_handler_of_the_programs_own_is_left() -> None:
    def handle(*_: object) -> None:
        pass

    before = signal.signal(signal.SIGCHLD, handle)
    try:
        with ends_are_told():
            assert signal.getsignal(signal.SIGCHLD) is handle
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("ignored")
def test_another_thread_is_told_to_have_the_main_one_change_it() -> None:
    refusals: list[str] = []

    def work() -> None:
        try:
            with ends_are_told():
                pass
        except RuntimeError as error:
            refusals.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    (refusal,) = refusals
    assert "signal.signal(signal.SIGCHLD, signal.SIG_DFL)" in refusal
