"""Launchers whose parent ignores signals of children, which would take failures for successes."""

import subprocess
import sys

import pytest

from collective.launching import LAUNCH_SECONDS, rank_environment

IGNORING = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
FUNCTION = """
import horovod, signal
def on_rank():
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    return 3
print(horovod.run(on_rank, num_proc=2), signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN)
def fails():
    raise ValueError
horovod.run(fails, num_proc=1)
"""


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", IGNORING, *words],
        capture_output=True,
        text=True,
        env=rank_environment(),
        timeout=LAUNCH_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    "flags",
    [(), ("--min-np", "1"), ("--min-np", "1", "--host-discovery-script", "echo localhost:1")],
    ids=["fixed", "elastic", "with a script"],
)
@pytest.mark.parametrize("code", [0, 3])
def test_codes_are_those_of_the_workers(flags: tuple[str, ...], code: int) -> None:
    program = (
        "import signal, sys; assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL;"
        f" sys.exit({code})"
    )
    launcher = ("-m", "horovod.runner", "-np", "1", *flags)
    done = run(*launcher, sys.executable, "-c", program)
    assert done.returncode == code, done.stderr


def test_functions_too() -> None:
    done = run("-c", FUNCTION)
    assert done.returncode == 1
    assert done.stdout == "[3, 3] True\n"
    assert "The first process to do so was:\nProcess name: 0\nExit code: 1" in done.stderr
