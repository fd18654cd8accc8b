"""A job that signals end: its workers have time to save what they have."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collective.launching import LAUNCH_SECONDS, clean_environment

KINDS = pytest.mark.parametrize("flags", [(), ("--min-np", "2")], ids=["fixed", "elastic"])
# Takes a second to end, and says so before and after. With a handler and `pause`, a signal that
# comes in front of `pause` would wake nobody.
SAVING = """
import os, pathlib, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
print("saving", flush=True)
time.sleep(1)
pathlib.Path(sys.argv[1], os.environ["HOROVOD_RANK"]).touch()
print("saved", flush=True)
"""


@contextmanager
def saving(folder: Path, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A launcher whose two workers have said that they are ready."""
    # Under nohup, or in the background of a shell script, tests would hand on ignored signals.
    prepare = (
        "import os, signal, sys; [signal.signal(n, signal.SIG_DFL) for n in (1, 2)];"
        " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    launcher = subprocess.Popen(
        [
            *(sys.executable, "-c", prepare, "-m", "horovod.runner", "-np", "2", *flags),
            *(sys.executable, "-c", SAVING, str(folder)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    try:
        assert launcher.stdout is not None
        for _ in range(2):
            assert launcher.stdout.readline().endswith(b"ready\n")
        yield launcher
    finally:
        launcher.kill()
        launcher.communicate()


@KINDS
@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGHUP, signal.SIGHUP),
        (signal.SIGTERM, signal.SIGINT),
    ],
)
def test_a_signal_that_comes_twice_is_one(
    tmp_path: Path, flags: tuple[str, ...], numbers: tuple[signal.Signals, ...]
) -> None:
    with saving(tmp_path, *flags) as launcher:
        assert launcher.stdout is not None
        launcher.send_signal(numbers[0])
        launcher.stdout.readline()  # the workers have been asked to end
        launcher.send_signal(numbers[1])
        assert launcher.wait(LAUNCH_SECONDS) == 128 + numbers[0]
    assert {file.name for file in tmp_path.iterdir()} == {"0", "1"}


@KINDS
def test_who_reads_the_output_may_end_of_the_same_signal(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    with saving(tmp_path, *flags) as launcher:
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        launcher.send_signal(signal.SIGINT)
        launcher.stdout.close()
        assert launcher.wait(LAUNCH_SECONDS) == 128 + signal.SIGINT
        assert launcher.stderr.read() == b""
        launcher.stderr.close()
    assert {file.name for file in tmp_path.iterdir()} == {"0", "1"}
