"""Ending workers of this host, and of another one over a stand-in for ssh: one, or all."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from collective.launching import wait_until_gone
from horovod.runner import ssh
from horovod.runner.process_groups import Sessions
from horovod.runner.processes import LocalWorkers
from horovod.runner.remote import Order
from horovod.runner.ssh import RemoteWorkers
from horovod.runner.ssh_options import SshOptions
from horovod.runner.workers import Workers

PATIENCE = 60.0  # seconds until a test that hangs is given up
SAYS_THAT_IT_RUNS = "import os, signal; os.write(1, b'.'); signal.pause()"


class Reports:
    """What is said of workers."""

    def __init__(self) -> None:
        self.outputs: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self.messages: list[str] = []

    def on_output(self, rank: int, _stream: str, _data: bytes) -> None:
        self.outputs.put(rank)

    def on_exit(self, rank: int, code: int) -> None:
        self.ends.put((rank, code))


def order_of(workers: Mapping[int, Mapping[str, str]]) -> Order:
    environment = {**os.environ, "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1"}
    return Order([sys.executable, "-c", SAYS_THAT_IT_RUNS], os.sep, environment, workers)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, last_line: str) -> None:
    """Puts a program called ssh in front of the real one."""
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\n{last_line}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def remote(
    reports: Reports, kubexec: str | None = None, patience: float = PATIENCE
) -> RemoteWorkers:
    return RemoteWorkers(
        "elsewhere",
        SshOptions(None, None, kubexec),
        order_of({4: {}, 5: {}}),
        reports.on_output,
        reports.on_exit,
        reports.messages.append,
        patience,
    )


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_one_worker_is_ended_and_the_other_runs_on(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, 'exec sh -c "exec $1"')
    reports = Reports()
    workers: Workers = remote(reports)
    if where == "here":
        commands = order_of({4: {}, 5: {}}).commands({})
        workers = LocalWorkers(commands, reports.on_output, reports.on_exit)
    workers.start()
    assert {reports.outputs.get(timeout=PATIENCE) for _ in range(2)} == {4, 5}
    workers.stop_one(5)
    assert reports.ends.get(timeout=PATIENCE) == (5, 128 + signal.SIGTERM)
    workers.stop_one(5)  # it has ended already
    assert reports.ends.empty()
    assert not workers.gone
    workers.stop()
    assert reports.ends.get(timeout=PATIENCE) == (4, 128 + signal.SIGTERM)
    assert reports.messages == []
    assert workers.gone


def test_a_worker_that_is_ended_before_it_is_started_never_runs() -> None:
    reports = Reports()
    commands = order_of({4: {}, 5: {}}).commands({})
    workers = LocalWorkers(commands, reports.on_output, reports.on_exit)
    workers.stop_one(5)
    workers.start()
    assert reports.ends.get(timeout=PATIENCE) == (5, 128 + signal.SIGTERM)
    assert reports.outputs.get(timeout=PATIENCE) == 4
    workers.stop()
    assert reports.ends.get(timeout=PATIENCE) == (4, 128 + signal.SIGTERM)
    assert reports.outputs.empty()


def test_no_host_is_reached_for_workers_that_are_ended_before_they_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"touch {tmp_path}/started")
    reports = Reports()
    workers = remote(reports)
    workers.stop()
    workers.start()
    assert [reports.ends.get(timeout=PATIENCE) for _ in range(2)] == [(4, 143), (5, 143)]
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("kubexec", [False, True])
def test_a_worker_is_ended_before_its_host_has_been_reached_and_the_other_runs(
    kubexec: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = tmp_path / "reached"
    os.mkfifo(reached)
    stand_in(tmp_path, monkeypatch, f'read -r _ <{reached}; exec sh -c "exec $1"')
    reports = Reports()
    workers = remote(reports, str(tmp_path / "ssh") if kubexec else None)
    workers.start()
    short = 0.05
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", short)
    ending = threading.Thread(target=workers.stop_one, args=(5,))
    ending.start()
    ending.join(20 * short)
    assert ending.is_alive()  # nobody is given up while the host is being reached
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", PATIENCE)
    reached.write_text("now\n")
    assert reports.ends.get(timeout=PATIENCE) == (5, 128 + signal.SIGTERM)
    ending.join(PATIENCE)
    while reports.outputs.get(timeout=PATIENCE) != 4:
        pass  # the other may have been started before it heard of its end
    workers.stop()
    assert reports.ends.get(timeout=PATIENCE) == (4, 128 + signal.SIGTERM)
    assert reports.messages == []


def test_a_host_that_is_never_reached_is_given_up_when_a_worker_of_it_is_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "GREETING_SECONDS", 0.0)  # what the user has stated counts
    stand_in(tmp_path, monkeypatch, "exec sleep 600")
    reports = Reports()
    workers = remote(reports, patience=0.5)
    workers.start()
    workers.stop_one(5)
    ends = {reports.ends.get(timeout=PATIENCE) for _ in range(2)}
    assert ends == {(4, 255), (5, 255)}
    (message,) = reports.messages
    assert message.startswith("elsewhere has not answered within 0.5 seconds")


@pytest.mark.parametrize("kubexec", [False, True])
@pytest.mark.parametrize(
    "hang",
    ["exec sleep 600", "sleep 600; exit", "echo Welcome.; exec sleep 600"],
)
def test_a_host_that_does_not_answer_is_named_and_given_up(
    kubexec: bool,  # noqa: FBT001 - a parameter of the test
    hang: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in(tmp_path, monkeypatch, hang)
    reports = Reports()
    workers = remote(reports, str(tmp_path / "ssh") if kubexec else None, 0.3)
    workers.start()
    ends = {reports.ends.get(timeout=PATIENCE) for _ in range(2)}
    assert ends == {(4, 255), (5, 255)}
    (message,) = reports.messages
    assert message.startswith(
        "elsewhere has not answered within 0.3 seconds (--start-timeout), so that its ranks 4, 5"
        " cannot start: "
    )
    for thread in workers._threads:
        thread.join(PATIENCE)
    assert reports.ends.empty()


def test_a_connection_is_ended_with_what_ssh_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, 'sh -c "$1"; exit')
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", PATIENCE)
    reports = Reports()
    workers = remote(reports)
    workers.start()
    assert {reports.outputs.get(timeout=PATIENCE) for _ in range(2)} == {4, 5}
    workers.kill()
    ends = {reports.ends.get(timeout=PATIENCE) for _ in range(2)}
    assert ends == {(4, 128 + signal.SIGKILL), (5, 128 + signal.SIGKILL)}
    assert reports.ends.empty()


def test_a_connection_is_given_up_when_a_stranger_holds_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", 0.1)
    stand_in(tmp_path, monkeypatch, f"setsid sh -c 'echo $$ >{fifo}; exec sleep 600'; exit")
    reports = Reports()
    workers = remote(reports)
    workers.start()
    stranger = int(fifo.read_text())
    try:
        workers.kill()
        assert [reports.ends.get(timeout=PATIENCE) for _ in range(2)] == [(4, 255), (5, 255)]
    finally:
        os.kill(stranger, signal.SIGKILL)
    for thread in workers._threads:
        thread.join(PATIENCE)
    assert reports.ends.empty()  # each is said to have ended once


# As `timeout` does, and shells with job control.
IN_A_GROUP_OF_ITS_OWN = """
import os, signal
if os.fork() == 0:
    os.setpgid(0, 0)
    os.write(1, b"%d %d" % (os.getppid(), os.getpid()))
signal.pause()
"""


@pytest.mark.parametrize("end", ["stop", "stop_one", "kill", "itself"])
def test_what_leads_a_group_of_its_own_ends_too(end: str) -> None:
    reports = Reports()
    written: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    program = [sys.executable, "-c", IN_A_GROUP_OF_ITS_OWN]
    order = Order(program, os.sep, dict(os.environ), {4: {}})
    workers = LocalWorkers(
        order.commands({}), lambda _rank, _stream, data: written.put(data), reports.on_exit
    )
    workers.start()
    leader, child = map(int, written.get(timeout=PATIENCE).split())
    if end == "stop_one":
        workers.stop_one(4)
    elif end == "itself":
        os.kill(leader, signal.SIGKILL)
    else:
        getattr(workers, end)()
    assert reports.ends.get(timeout=PATIENCE)[0] == 4
    wait_until_gone(child)


# Ends a session that does not end when it is asked to, while no descriptor is free.
WITHOUT_DESCRIPTORS = """
import resource, subprocess
from horovod.runner import process_groups
process_groups.TERMINATE_SECONDS = 0.2
stubborn = ["sh", "-c", "trap '' TERM; echo ready; sleep 600 & wait; wait"]
session = subprocess.Popen(stubborn, stdout=subprocess.PIPE, start_new_session=True)
session.stdout.readline()
limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
process_groups.Sessions().end(session.pid)
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
print(session.wait(30))
"""


def test_a_session_is_ended_while_no_descriptor_is_free() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.stdout == "-9\n", done.stderr


def test_all_sessions_are_asked_to_end_before_any_is_waited_for() -> None:
    # Asked to end, the first one waits for the second one's end, and then says that it has.
    waits = (
        "import os, signal, sys;"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(len(os.read(0, 1))));"
        "print(flush=True); signal.pause()"
    )
    reader, writer = os.pipe()
    with (
        subprocess.Popen(
            [sys.executable, "-c", waits],
            stdin=reader, stdout=subprocess.PIPE, start_new_session=True,
        ) as first,
        subprocess.Popen(
            [sys.executable, "-c", SAYS_THAT_IT_RUNS],
            stdin=writer, stdout=subprocess.PIPE, start_new_session=True,
        ) as second,
    ):  # fmt: skip
        os.close(reader)
        os.close(writer)
        for process in (first, second):
            assert process.stdout is not None
            assert process.stdout.read(1)
        Sessions().end(first.pid, second.pid)
    assert (first.returncode, second.returncode) == (0, -signal.SIGTERM)
