"""Elastic jobs: ranks are killed, hosts come and go, and training comes out right."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collective.launching import (
    LAUNCH_SECONDS,
    RANKS,
    Launched,
    clean_environment,
    horovodrun,
)

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
    training_goes_on_when_ranks_are_killed({})


def training_goes_on_when_ranks_are_killed(env: dict[str, str]) -> None:
    """Two of three, one after the other; in that environment beside what tests have."""
    launched = horovodrun(
        "-np", "3", "--min-np", "1", "-H", "localhost:3", sys.executable, PROGRAM, "kill", env=env
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


@pytest.mark.torch
def test_a_host_that_is_replaced_hands_its_state_on(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:1\n")
    launched = horovodrun(
        "-np", "1", "--max-np", "1", "--host-discovery-script", f"cat {hosts}",
        sys.executable, PROGRAM, "replace", hosts,
    )  # fmt: skip
    assert launched.code == 0, launched.out + launched.err
    assert "[1/2] round 2 epoch 1" in launched.out
    # The old host leaves at the first commit that it hears of it at.
    assert re.search(r"\[0/1\] round 3 epoch \d", launched.out)
    assert "This worker leaves the job: localhost has no slot for it any more." in launched.err
    assert results(launched) == [uninterrupted()]


def test_a_newcomer_does_not_begin_anew_when_the_state_is_lost_before_it_has_it(
    tmp_path: Path,
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:1\n")
    launched = horovodrun(
        "-np", "1", "--min-np", "1", "--host-discovery-script", f"cat {hosts}",
        sys.executable, RANKS / "elastic_lost_state.py", hosts,
    )  # fmt: skip
    assert launched.code == 128 + signal.SIGKILL, launched.out + launched.err
    assert "No worker that has the state of the training is left" in launched.err
    assert launched.out.count("starts at step 0") == 1


@pytest.mark.parametrize("lost", ["0", "1"])
@pytest.mark.parametrize("number", ["1", "2"])
def test_nobody_waits_for_a_rank_that_is_lost_before_it_has_connected(
    lost: str, number: str
) -> None:
    launched = horovodrun(
        "-np", "3", "--min-np", "2", "-H", "localhost:3", "--start-timeout", "3600",
        sys.executable, RANKS / "elastic_lost_in_init.py", lost, number,
    )  # fmt: skip
    assert launched.code == 0, launched.out + launched.err
    assert launched.out.count("2 train") == 2
    assert f"has ended with code {128 + signal.SIGKILL}. Asking for a new place." in launched.err


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


def test_a_removed_host_that_answers_no_more_does_not_keep_the_job_from_ending(
    tmp_path: Path,
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:1\n127.0.0.1:1\n")
    vanishes = (
        "import os, pathlib, signal, horovod.array as hvd; hvd.init()\n"
        "if hvd.rank() == 1:\n"
        f"    pathlib.Path({str(hosts)!r}).write_text('localhost:1')\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "try: hvd.barrier()\n"
        "except hvd.HorovodInternalError: hvd.shutdown(); hvd.init()\n"
        "print('one of', hvd.size())"
    )
    launched = horovodrun(
        "-np", "2", "--min-np", "1", "--host-discovery-script", f"cat {hosts}",
        sys.executable, "-c", vanishes,
        env={"HOROVOD_HEARTBEAT_TIMEOUT_SECONDS": "2"},
    )  # fmt: skip
    assert launched.code == 0, launched.out + launched.err
    assert launched.out == "[0]<stdout>:one of 1\n"
    assert "without which the job goes on, has not come for 10 seconds" in launched.err


# Does not wait long for newcomers, since that of the test starts only when the others have gone on.
SOON_GOING_ON = """
import sys
from horovod.runner import launch
from horovod.runner.elastic import newcomers
newcomers.STARTING_GRACE = 0.2
sys.exit(launch.run_commandline())
"""


def test_the_others_train_on_while_a_newcomer_starts(tmp_path: Path) -> None:
    """A slot is removed and a host added at the same time."""
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:2\n")
    alone = tmp_path / "alone"
    program = (
        "import os, pathlib, time, horovod.array as hvd\n"
        "from horovod.common.elastic import ObjectState, run_fn\n"
        f"hosts, alone = pathlib.Path({str(hosts)!r}), pathlib.Path({str(alone)!r})\n"
        "while os.environ['HOROVOD_ELASTIC_WORKER'] == '2' and not alone.exists():\n"
        "    time.sleep(0.02)\n"
        "hvd.init()\n"
        "def reset(): hvd.shutdown(); hvd.init()\n"
        "def train(state):\n"
        "    state.sizes.append(hvd.size())\n"
        "    if hvd.rank() == 0 and state.sizes == [2]:\n"
        "        hosts.with_suffix('.new').write_text('localhost:1\\n127.0.0.1:1\\n')\n"
        "        hosts.with_suffix('.new').rename(hosts)\n"
        "    if hvd.size() == 1: alone.touch()\n"
        "    for _ in range(3000):\n"
        "        if len(state.sizes) == 3: break\n"
        "        state.commit(); time.sleep(0.02)\n"
        "    return state.sizes\n"
        "state = ObjectState(hvd.broadcast_object, hvd.rank, sizes=[])\n"
        "print(run_fn(train, reset)(state))"
    )
    launched = horovodrun(
        "-np", "2", "--min-np", "1", "--reset-limit", "1", "--elastic-timeout", "60",
        "--host-discovery-script", f"cat {hosts}", sys.executable, "-c", program,
        launcher=("-c", SOON_GOING_ON),
    )  # fmt: skip
    assert launched.code == 0, launched.out + launched.err
    assert launched.lines(0) == launched.lines(1) == ["[2, 1, 2]"]


# Gives up ranks that cannot connect long before one that is slow to start.
SOON_GIVING_UP = """
import sys
from horovod.runner import launch
from horovod.runner.elastic import driver
from horovod.runner.elastic.meetings import Meetings
driver.Meetings = lambda timeout: Meetings(timeout / 120)
sys.exit(launch.run_commandline())
"""


def test_a_job_whose_ranks_can_never_connect_ends() -> None:
    kept_apart = (  # as by a firewall, but at once
        "import horovod._session, horovod.array as hvd\n"
        "from horovod.common.exceptions import HorovodInternalError\n"
        "def fail(*_): raise HorovodInternalError('the way is barred.')\n"
        "horovod._session.start_runtime = fail\n"
        "hvd.init()"
    )
    launched = horovodrun(
        "-np", "2", "--min-np", "2", "--elastic-timeout", "120",
        sys.executable, "-c", kept_apart,
        launcher=("-c", SOON_GIVING_UP),
    )  # fmt: skip
    assert launched.code == 1
    assert "The ranks could not connect with each other " in launched.err
    assert ", for 1 seconds (--elastic-timeout). Rank 0 on localhost: the way" in launched.err
    assert "the way is barred. Rank 1" in launched.err
    assert "the way is barred. Asking for a new place." in launched.err


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
        (r"printf 'h\303:1\n'", r"printed 'h\\xc3:1', which is not of the form"),
    ],
)
def test_a_discovery_script_that_never_worked_ends_the_job(script: str, complaint: str) -> None:
    launched = horovodrun("-np", "1", "--host-discovery-script", script, "true")
    assert launched.code == 1  # at once, and not after the time-out of ten minutes
    assert "horovodrun: error: cannot tell the hosts: " in launched.err
    assert complaint in launched.err


def test_an_empty_discovery_script_is_a_mistake() -> None:
    launched = horovodrun("-np", "1", "--host-discovery-script", " ", "true")
    assert (launched.code, launched.out) == (2, "")
    assert "error: --host-discovery-script is empty" in launched.err


def test_a_discovery_script_that_fails_later_is_asked_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    script = (
        f"echo >>{calls}; [ $(wc -l <{calls}) -eq 2 ] && exit 7; echo localhost:1;"
        r" printf 'no UTF-8: \303\n' >&2"
    )
    wait = (
        "import horovod.array as hvd, time; hvd.init()\n"
        f"while len(open({str(calls)!r}).read()) < 4: time.sleep(0.02)"
    )
    launched = horovodrun("-np", "1", "--host-discovery-script", script, sys.executable, "-c", wait)
    assert launched.code == 0, launched.err
    assert launched.err.count("horovodrun: cannot tell the hosts this time: ") == 1
    assert "ended with code 7" in launched.err


@pytest.mark.parametrize("name", ["a..b", "a" * 64])
def test_a_name_that_no_host_can_have_is_left_out(tmp_path: Path, name: str) -> None:
    calls = tmp_path / "calls"
    script = f"echo >>{calls}; echo localhost:1; [ $(wc -l <{calls}) -eq 1 ] || echo {name}:1"
    wait = (
        "import horovod.array as hvd, time; hvd.init()\n"
        f"while len(open({str(calls)!r}).read()) < 4: time.sleep(0.02)"
    )
    launched = horovodrun("-np", "1", "--host-discovery-script", script, sys.executable, "-c", wait)
    assert launched.code == 0, launched.err
    assert f"no way to host '{name}': no host has such a name" in launched.err
    assert f"No more workers are started on {name} for now." in launched.err


MOODY = """
import sys
from horovod.runner import launch
from horovod.runner.elastic.discovery import HostDiscoveryScript
ask, answers = HostDiscoveryScript.find_available_hosts_and_slots, []
def moody(script):
    answers.append(ask(script))
    if len(answers) == 2:
        raise LookupError("no such cloud")
    return answers[-1]
HostDiscoveryScript.find_available_hosts_and_slots = moody
sys.exit(launch.run_commandline())
"""


def test_hosts_are_looked_for_again_after_an_unexpected_exception(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    script = f"echo >>{calls}; echo localhost:1"
    wait = (
        "import horovod.array as hvd, time; hvd.init()\n"
        f"while len(open({str(calls)!r}).read()) < 4: time.sleep(0.02)"
    )
    done = subprocess.run(
        [sys.executable, "-c", MOODY, "-np", "1", "--host-discovery-script", script,
         sys.executable, "-c", wait],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=LAUNCH_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot tell the hosts this time: looking for hosts has failed\n") == 1
    assert re.search(r"\n  File .*, in moody\nLookupError: no such cloud\n", done.stderr)


# Never hears what addresses a host has.
LOOKING_UP = """
import socket, sys, threading
from horovod.runner import launch
look_up = socket.getaddrinfo
def look_up_or_hang(name, *rest, **more):
    if name == "slow.invalid":
        print("looking", flush=True)
        threading.Event().wait()
    return look_up(name, *rest, **more)
socket.getaddrinfo = look_up_or_hang
sys.exit(launch.run_commandline())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_launcher_that_looks_up_the_name_of_a_host(number: signal.Signals) -> None:
    hosts = ("--host-discovery-script", "echo slow.invalid:1")
    with subprocess.Popen(
        [sys.executable, "-c", LOOKING_UP, "-np", "1", "--min-np", "1", *hosts, "true"],
        stdout=subprocess.PIPE,
        env=clean_environment(),
    ) as launcher:
        try:
            assert launcher.stdout is not None
            assert launcher.stdout.readline() == b"looking\n"
            launcher.send_signal(number)
            assert launcher.wait(60) == 128 + number
        finally:
            launcher.kill()


WHERE_THE_STORE_LISTENS = """
import os
from pathlib import Path
port = f":{int(os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT']):04X}"
lines = [
    line.split() for name in ("tcp", "tcp6") if (file := Path("/proc/net", name)).exists()
    for line in file.read_text().splitlines()
]
listening = "0A"
print(*(own[:-5] for _, own, _, state, *_ in lines if own.endswith(port) and state == listening))
"""


@pytest.mark.parametrize("fixed", [True, False])
def test_the_store_is_reached_from_elsewhere_only_where_hosts_may_come(
    tmp_path: Path,
    fixed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    script = tmp_path / "hosts"
    script.write_text("#!/bin/sh\necho localhost:1\n")
    script.chmod(0o755)
    hosts = ["-H", "localhost:1"] if fixed else ["--host-discovery-script", script]
    launched = horovodrun(
        "-np", "1", "--min-np", "1", *hosts, sys.executable, "-c", WHERE_THE_STORE_LISTENS
    )
    assert launched.code == 0, launched.err
    (where,) = launched.lines(0)
    assert bool(where.strip("0")) == fixed
