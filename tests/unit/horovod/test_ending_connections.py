"""How connections over a stand-in for ssh end that strangers hold open, or where nobody answers."""

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collective.launching import wait_until_gone
from horovod.runner import ssh
from horovod.runner.remote import Order
from horovod.runner.ssh import RemoteWorkers
from horovod.runner.ssh_options import SshOptions
from unit.horovod.test_ending_workers import PATIENCE, Reports, order_of, stand_in

# What a login shell may start, which is no part of ssh's own group.
STRANGER = "setsid sh -c 'echo $$ >{pid}; exec sleep 600' {held} &\n"
# The program goes on when the agent has ended, as ssh does while somebody holds the remote output.
AGENT_BESIDE = 'sh -c "echo \\$\\$ >{agent}; exec $1"; exec sleep 600'
AGENT_IN_PLACE = 'echo $$ >{agent}; exec sh -c "exec $1"'


def remote(
    reports: Reports, order: Order, on_lost: Callable[[int, int], None] | None = None
) -> RemoteWorkers:
    return RemoteWorkers(
        "elsewhere", SshOptions(None, None), order, reports.on_output, reports.on_exit,
        reports.messages.append, 10 * PATIENCE, on_lost,
    )  # fmt: skip


@contextlib.contextmanager
def ended(*files: Path) -> Iterator[None]:
    """Ends processes afterwards whose numbers are in some files."""
    try:
        yield
    finally:
        for file in files:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("held", [">/dev/null", "2>/dev/null", ""])
def test_ranks_are_lost_with_ssh_whatever_a_stranger_holds_open(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", 0.5)
    pid, agent = tmp_path / "pid", tmp_path / "agent"
    lines = STRANGER.format(pid=pid, held=held) + AGENT_IN_PLACE.format(agent=agent)
    stand_in(tmp_path, monkeypatch, lines)
    reports = Reports()
    workers = remote(reports, order_of({4: {}, 5: {}}))
    with ended(pid):
        workers.start()
        assert {reports.outputs.get(timeout=PATIENCE) for _ in range(2)} == {4, 5}
        os.kill(int(agent.read_text()), signal.SIGKILL)
        code = 137 if held == ">/dev/null" else 255  # what its end tells may be not all
        assert [reports.ends.get(timeout=PATIENCE) for _ in range(2)] == [(4, code), (5, code)]
        told = "the connection to elsewhere ended with code 137 before its ranks 4, 5 did\n"
        assert reports.messages == [told]
        workers.stop()
        assert workers.gone


def test_ranks_are_lost_with_the_agent_where_ssh_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", 0.5)
    agent = tmp_path / "agent"
    stand_in(tmp_path, monkeypatch, AGENT_BESIDE.format(agent=agent))
    reports, lost = Reports(), list[int]()

    def on_lost(rank: int, code: int) -> None:
        lost.append(rank)
        reports.on_exit(rank, code)

    workers = remote(reports, order_of({4: {}, 5: {}}), on_lost)
    workers.start()
    assert {reports.outputs.get(timeout=PATIENCE) for _ in range(2)} == {4, 5}
    os.kill(int(agent.read_text()), signal.SIGKILL)
    assert [reports.ends.get(timeout=PATIENCE) for _ in range(2)] == [(4, 255), (5, 255)]
    told = "the agent on elsewhere ended, though not the connection to it, before its ranks 4, 5"
    assert reports.messages[-1] == f"{told} did\n"  # the shell may have said something before
    assert lost == [4, 5]


def test_no_rank_is_lost_while_its_output_waits_for_who_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", 0.2)
    agent = tmp_path / "agent"
    stand_in(tmp_path, monkeypatch, AGENT_IN_PLACE.format(agent=agent))
    reports, goes_on = Reports(), threading.Event()
    monkeypatch.setattr(reports, "on_output", lambda *_: goes_on.wait(PATIENCE))
    workers = remote(reports, Order(["sh", "-c", "echo word; exit 7"], os.sep, {}, {4: {}}))
    workers.start()
    while not agent.exists() or not agent.read_text():
        time.sleep(0.01)
    wait_until_gone(int(agent.read_text()))
    with pytest.raises(queue.Empty):
        reports.ends.get(timeout=1.5)
    goes_on.set()
    assert reports.ends.get(timeout=PATIENCE) == (4, 7)
    assert reports.messages == []


def test_an_ssh_that_goes_on_when_all_ranks_have_ended_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", 0.5)
    agent, program = tmp_path / "agent", tmp_path / "program"
    stand_in(tmp_path, monkeypatch, f"echo $$ >{program}\n{AGENT_BESIDE.format(agent=agent)}")
    reports = Reports()
    workers = remote(reports, Order(["true"], os.sep, {}, {4: {}}))
    with ended(program):
        workers.start()
        assert reports.ends.get(timeout=PATIENCE) == (4, 0)
        wait_until_gone(int(program.read_text()))
    assert reports.messages == []


@pytest.mark.parametrize("end", ["stop", "stop_one"])
def test_a_host_that_has_not_answered_keeps_nobody_waiting_who_wants_none_of_its_ranks(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "TERMINATE_SECONDS", 10 * PATIENCE)
    stand_in(tmp_path, monkeypatch, "exec sleep 600")
    reports = Reports()
    workers = remote(reports, order_of({4: {}, 5: {}}))
    workers.start()
    enders = [threading.Thread(target=workers.stop)]
    if end == "stop_one":
        enders = [threading.Thread(target=workers.stop_one, args=(rank,)) for rank in (4, 5)]
    for ender in enders:
        ender.start()
    assert {reports.ends.get(timeout=PATIENCE)[0] for _ in range(2)} == {4, 5}
    for ender in enders:
        ender.join(PATIENCE)
        assert not ender.is_alive()
    assert reports.messages == []
