"""`horovod.run` and signals: its caller hears of them once the ranks are gone."""

import re
import signal
import subprocess
import sys

import pytest

from collective.launching import LAUNCH_SECONDS, rank_environment, wait_until_gone

# Calls a function that waits, and says what that came to; `handled` gives SIGTERM a handler.
CALLER = """
import horovod, os, signal, sys
def handle(number, _):
    print("handled", signal.Signals(number).name)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, handle if "handled" in sys.argv else signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
elastic = {"min_num_proc": 1} if "elastic" in sys.argv else {}
def on_rank(to_itself):
    if to_itself:
        sys.exit(130)
    os.write(1, f"runs: {os.getpid()}\\n".encode())
    signal.pause()
try:
    horovod.run(on_rank, (f"{signal.SIGINT:d}" in sys.argv,), num_proc=1, **elastic)
except BaseException as error:
    print(type(error).__name__, error)
"""


def run(number: signal.Signals, *words: str) -> list[str]:
    """Sends a signal to a caller when its rank runs; what it says when that is gone."""
    with subprocess.Popen(
        [sys.executable, "-c", CALLER, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=rank_environment(),
    ) as caller:
        try:
            assert caller.stdout is not None
            match = re.search(r"runs: (\d+)", caller.stdout.readline())
            assert match is not None
            caller.send_signal(number)
            said = caller.stdout.read().splitlines()
            assert caller.wait(LAUNCH_SECONDS) == 0
            wait_until_gone(int(match[1]))
        finally:
            caller.kill()
    return said


@pytest.mark.parametrize("kind", ["fixed", "elastic"])
@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (signal.SIGINT, (), ["KeyboardInterrupt "]),
        (signal.SIGTERM, (), ["RuntimeError {} SIGTERM."]),
        (signal.SIGTERM, ("handled",), ["handled SIGTERM", "RuntimeError {} SIGTERM."]),
        (signal.SIGHUP, (), ["RuntimeError {} SIGHUP."]),
    ],
)
def test_a_signal_reaches_the_caller(
    kind: str, number: signal.Signals, words: tuple[str, ...], said: list[str]
) -> None:
    reason = "The job was ended because this process has got the signal"
    assert run(number, kind, *words) == [line.format(reason) for line in said]


def test_a_rank_that_ends_as_if_by_ctrl_c_is_a_failure_of_the_rank() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALLER, f"{signal.SIGINT:d}"],
        capture_output=True,
        text=True,
        env=rank_environment(),
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    assert done.stdout.startswith("RuntimeError Horovod detected that one or more processes")
