"""What a worker leaves running: it may end by itself, while it holds the worker's output open."""

import os
import queue
import re
import signal
from pathlib import Path

import pytest

from collective.launching import wait_until_gone
from horovod.runner import background, processes
from horovod.runner.processes import Command, LocalWorkers

PATIENCE = 60.0  # seconds until a test that hangs is given up
RANK = 4
# By then it is `sleep` that runs, no copy of the shell.
SLEEPER = "sleep 600 & until grep -q sleep /proc/$!/cmdline; do :; done"


class Shell:
    """A worker that runs a shell's script, and what it writes until it is said to have ended."""

    def __init__(self, script: str, folder: Path) -> None:
        self.written: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.code: queue.SimpleQueue[int] = queue.SimpleQueue()
        command = Command(RANK, ["/bin/sh", "-c", script], dict(os.environ), folder)
        self.workers = LocalWorkers(
            [command],
            lambda _rank, _stream, data: self.written.put(data.decode()),
            lambda _rank, code: self.code.put(code),
        )
        self.workers.start()

    def reads(self) -> str:
        return self.written.get(timeout=PATIENCE)

    def ends(self) -> int:
        return self.code.get(timeout=PATIENCE)


def test_it_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    go = os.open(tmp_path / "go", os.O_RDWR)
    try:
        shell = Shell("(read -r word <go; echo $word) & echo $$", tmp_path)
        wait_until_gone(int(shell.reads()))
        os.write(go, b"uploaded\n")
        assert shell.ends() == 0
    finally:
        os.close(go)
    assert shell.reads() == "uploaded\n"
    assert shell.written.empty()  # what takes no time is not worth a word


def test_it_is_ended_after_a_while_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "SAID_SECONDS", 0.0)
    monkeypatch.setattr(background, "LONGEST_SECONDS", 0.2)
    shell = Shell(f"{SLEEPER}; echo $!", tmp_path)
    sleeper = int(shell.reads())
    assert shell.ends() == 0
    wait_until_gone(sleeper)
    for word in ("is waited for until", "is ended now, after 0.2 seconds"):
        said = shell.reads()
        assert word in said
        assert said.endswith(f": {sleeper} (sleep 600)\n")


@pytest.mark.parametrize("end", ["stop", "stop_one", "kill"])
def test_it_ends_with_the_job(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SAID_SECONDS", 0.0)
    monkeypatch.setattr(background, "LONGEST_SECONDS", 10 * PATIENCE)
    shell = Shell(SLEEPER, tmp_path)
    (sleeper,) = re.findall(r"(\d+) \(sleep 600\)", shell.reads())
    getattr(shell.workers, end)(*((RANK,) if end == "stop_one" else ()))
    assert shell.ends() == 0
    wait_until_gone(int(sleeper))


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("sleep 600 & exit 3", 3),
        ("sleep 600 & kill -9 $$", 128 + signal.SIGKILL),
        ("sleep 600 >/dev/null 2>&1 &", 0),
    ],
)
def test_it_is_not_waited_for_after_a_failure_or_without_the_output(
    script: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LONGEST_SECONDS", 10 * PATIENCE)
    shell = Shell(script, tmp_path)
    assert shell.ends() == code
    assert shell.written.empty()


def test_who_has_left_the_session_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(background, "LONGEST_SECONDS", 10 * PATIENCE)
    os.mkfifo(tmp_path / "pid")
    shell = Shell("setsid sh -c 'echo $$ >pid; exec sleep 600' & exec cat pid", tmp_path)
    stranger = int(shell.reads())
    try:
        assert shell.ends() == 0
    finally:
        os.kill(stranger, signal.SIGKILL)
