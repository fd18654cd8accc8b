"""Elastic jobs: ranks are killed, hosts come and go, and training comes out right."""

import sys
from pathlib import Path

import pytest

from collective.launching import RANKS, Launched, horovodrun

PROGRAM = str(RANKS / "elastic_training.py")


def uninterrupted() -> list[str]:
    """The parameters that training in one process comes to."""
    import torch  # noqa: PLC0415 - takes seconds

    inputs = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for _ in range(4):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().sum()
        loss.backward()
        optimizer.step()
    return [f"{value:.4f}" for value in model.weight.detach().flatten().tolist()]


def results(launched: Launched) -> list[list[str]]:
    """What the workers that finished printed as their parameters."""
    lines = [line for line in launched.out.splitlines() if " finished " in line]
    return [
        [f"{float(word):.4f}" for word in line.split(" finished ")[1].split()] for line in lines
    ]


@pytest.mark.torch
def test_training_goes_on_when_ranks_are_killed() -> None:
    launched = horovodrun(
        "-np", "3", "--min-np", "1", "-H", "localhost:3", sys.executable, PROGRAM, "kill"
    )
    assert launched.code == 0, launched.out + launched.err
    assert "(rank 1) on localhost ended with code 137." in launched.err
    assert "[0/2] round 2 epoch 1" in launched.out  # from the last commit, not from the start
    assert "(rank 0) on localhost ended with code 137." in launched.err
    assert "[0/1] round 3 epoch 2" in launched.out  # the state outlives the first rank 0
    assert launched.out.count("reset") == 3
    assert results(launched) == [uninterrupted()]
    # Every sample was taken once in each epoch, but for those that fill the last batch.
    seen = next(line for line in launched.out.splitlines() if " seen [" in line)
    counts = [int(word) for word in seen.split("[")[-1].rstrip("]").split(",")]
    assert min(counts) >= 4
    assert sum(counts) <= 4 * 24 + 6


@pytest.mark.torch
def test_hosts_come_and_go(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:1\n")
    launched = horovodrun(
        "-np", "1", "--min-np", "1", "--max-np", "2", "--host-discovery-script", f"cat {hosts}",
        sys.executable, PROGRAM, "hosts", hosts,
    )  # fmt: skip
    assert launched.code == 0, launched.out + launched.err
    assert "[0/1] round 1 epoch 0" in launched.out
    assert "[1/2] round 2 epoch 1" in launched.out  # the newcomer has the state of the first
    assert "[0/1] round 3 epoch 2" in launched.out  # and goes on alone when that has gone
    assert "This worker leaves the job: localhost has no slot for it any more." in launched.err
    assert results(launched) == [uninterrupted()]


def test_a_job_that_cannot_go_on_ends_with_the_first_failure() -> None:
    fails = "import sys; sys.exit(3)"
    launched = horovodrun("-np", "2", "--min-np", "1", sys.executable, "-c", fails)
    assert launched.code == 3
    assert "on localhost ended with code 3." in launched.err
    assert "Traceback" not in launched.err
    assert "The first process to do so was:\nProcess name: worker " in launched.err
    one_ends_early = (
        "import os, sys, horovod.array as hvd\n"
        "if os.environ['HOROVOD_RANK'] == '1': sys.exit(0)\n"
        "hvd.init()"
    )
    launched = horovodrun("-np", "2", "--min-np", "2", sys.executable, "-c", one_ends_early)
    assert launched.code == 1
    assert "ended with code 0 before it had called hvd.init()" in launched.err


def test_a_program_without_horovod_is_run() -> None:
    launched = horovodrun("-np", "2", "--min-np", "1", sys.executable, "-c", "print('done')")
    assert (launched.code, launched.err) == (0, "")
    assert launched.lines(0) == launched.lines(1) == ["done"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("exit 7", "exit 7 ended with code 7"),
        ("./no-such-script.sh", "ended with code 127: "),
        ("echo host:many", "which is not of the form `<host>:<slots>`"),
        ("echo host", "or give the number with --slots-per-host"),
    ],
)
def test_a_discovery_script_that_never_worked_ends_the_job(script: str, complaint: str) -> None:
    launched = horovodrun("-np", "1", "--host-discovery-script", script, "true")
    assert launched.code == 1  # at once, and not after the time-out of ten minutes
    assert "horovodrun: error: cannot tell the hosts: " in launched.err
    assert complaint in launched.err


def test_a_discovery_script_that_fails_later_is_asked_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    script = f"echo >>{calls}; [ $(wc -l <{calls}) -eq 2 ] && exit 7; echo localhost:1"
    wait = (
        "import horovod.array as hvd, time; hvd.init()\n"
        f"while len(open({str(calls)!r}).read()) < 4: time.sleep(0.02)"
    )
    launched = horovodrun("-np", "1", "--host-discovery-script", script, sys.executable, "-c", wait)
    assert launched.code == 0, launched.err
    assert launched.err.count("horovodrun: cannot tell the hosts this time: ") == 1
    assert "ended with code 7" in launched.err
