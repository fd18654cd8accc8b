"""Ranks in other pods, through a program like Kubeflow's: it passes on output, and no input."""

import os
import signal
import sys
from pathlib import Path

import pytest

from collective.launching import (
    RANKS,
    expect_a_rank_to_end_with_the_launcher,
    horovodrun,
    wait_until_gone,
)
from horovod.runner.call_back import CallError, seal, unseal
from horovod.runner.core_shares import usable_cores

REMOTE = "127.0.0.2"  # this machine, but not under a name that is started directly
KUBEXEC = """\
#!/bin/sh
set -x
POD_NAME=$1
shift
echo "a word of welcome from $POD_NAME"
env -i PATH="$PATH" PYTHONPATH="$PYTHONPATH" /bin/sh -c "$*" </dev/null
"""


@pytest.fixture
def kubexec(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "kubexec.sh"
    program.write_text(KUBEXEC)
    program.chmod(0o755)
    return {"OMPI_MCA_plm_rsh_agent": str(program)}


def test_ranks_of_two_pods_work_together(kubexec: dict[str, str]) -> None:
    launched = horovodrun(
        "-np", "3", "-H", f"localhost:1,{REMOTE}:2", sys.executable, RANKS / "place.py",
        env={**kubexec, "MINE": "kept", "CUDA_VISIBLE_DEVICES": "7", "HOROVOD_TRANSPORT": "tcp"},
    )  # fmt: skip
    assert launched.code == 0, launched.err
    here = str(Path(__file__).parent)
    own = [here, str(max(1, usable_cores() // 2))]
    assert launched.lines(1) == [f"1/3 local 0/2 cross 1/2 tcp sum 6.0 kept None {REMOTE}", *own]
    assert launched.lines(2) == [f"2/3 local 1/2 cross 0/1 tcp sum 6.0 kept None {REMOTE}", *own]
    assert f"a word of welcome from {REMOTE}" not in launched.out


def test_nothing_secret_is_on_a_command_line(kubexec: dict[str, str]) -> None:
    launched = horovodrun(
        "-np", "1", "-H", f"{REMOTE}:1", sys.executable, RANKS / "show_processes.py", env=kubexec
    )
    assert launched.code == 0, launched.err
    (secret, *commands) = launched.lines(0)
    assert any("horovod.runner.remote" in command for command in commands)
    assert not any(secret in command for command in commands)


def test_a_failure_in_another_pod_ends_the_job_with_its_code(kubexec: dict[str, str]) -> None:
    launched = horovodrun(
        "-np", "2", "-H", f"localhost:1,{REMOTE}:1", sys.executable,
        RANKS / "with_children.py", "fail", env=kubexec,
    )  # fmt: skip
    assert launched.code == 9
    for rank in (0, 1):
        wait_until_gone(*map(int, launched.lines(rank)[0].split()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_workers_end_with_the_launcher(kubexec: dict[str, str], number: signal.Signals) -> None:
    expect_a_rank_to_end_with_the_launcher(number, ["-H", f"{REMOTE}:1"], kubexec)


def test_a_pod_that_is_not_there_is_named(kubexec: dict[str, str]) -> None:
    program = Path(kubexec["OMPI_MCA_plm_rsh_agent"])
    program.write_text("#!/bin/sh\necho no such pod: $1 >&2\nexit 3\n")
    launched = horovodrun("-np", "1", "-H", f"{REMOTE}:1", "true", env=kubexec)
    assert launched.code == 3
    assert f"no such pod: {REMOTE}" in launched.err
    assert f"the connection to {REMOTE} ended with code 3 before its ranks 0 did" in launched.err


def test_an_agent_that_cannot_call_is_not_waited_for(kubexec: dict[str, str]) -> None:
    program = Path(kubexec["OMPI_MCA_plm_rsh_agent"])
    program.write_text(KUBEXEC.replace('"$*"', '"${*% *} 127.0.0.1:1"'))
    launched = horovodrun("-np", "1", "-H", f"{REMOTE}:1", "true", env=kubexec)
    assert launched.code in (127, 137)  # its own end, or by the launcher
    assert "no connection to the job's launcher at 127.0.0.1:1" in launched.err
    assert f"{REMOTE}: the agent has ended" in launched.err


def test_other_programs_of_mpirun_are_left_alone() -> None:
    env = {"OMPI_MCA_plm_rsh_agent": "sh", "PATH": "/nonexistent"}
    launched = horovodrun("-np", "1", "-H", f"{REMOTE}:1", "true", env=env)
    assert "cannot start 'ssh'" in launched.err


def test_an_order_is_read_with_its_key_alone() -> None:
    key, order = os.urandom(32), b'{"environment": "secret"}\n'
    line = seal(key, order)
    assert unseal(key, line) == order
    assert b"secret" not in line
    for foreign in ((os.urandom(32), line), (key, b"AAAA\n"), (key, b"\xff\n")):
        with pytest.raises(CallError, match="is not the launcher"):
            unseal(*foreign)
