"""`horovodrun` where its words find no taker, no thread can be started, or there is no loopback."""

import array
import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from collective import networks
from collective.launching import LAUNCH_SECONDS, clean_environment

HOROVODRUN = (sys.executable, "-m", "horovod.runner", "-np", "2")
ELASTIC = ("--min-np", "2", "--max-np", "2")
# Rank 1 fails; rank 0 would go on for ever.
FAILING = """
import os, signal, sys
if os.environ["HOROVOD_RANK"] == "1": sys.exit(3)
signal.pause()
"""
MEETING = "import horovod.array as hvd; hvd.init(); hvd.barrier(); print(hvd.size())"

# `horovodrun` in which no thread that does the named work can be started.
WITHOUT_THREADS = """
import sys, threading
from horovod.runner.launch import run_commandline
start, work = threading.Thread.start, sys.argv.pop(1)
def start_or_refuse(thread):
    if thread._target.__name__ == work:
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = start_or_refuse
sys.exit(run_commandline())
"""


def run(
    *words: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    """Runs a command in which `horovodrun` runs; fails the test when it does not end."""
    return subprocess.run(
        words,
        stdout=stdout,
        stderr=stderr,
        text=True,
        env=clean_environment(),
        timeout=LAUNCH_SECONDS,
        check=False,
    )


@contextmanager
def full() -> Iterator[int]:
    with Path("/dev/full").open("wb", buffering=0) as device:
        yield device.fileno()


@contextmanager
def unread() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("stderr", [full, unread])
@pytest.mark.parametrize("flags", [(), ELASTIC], ids=["fixed", "elastic"])
def test_words_that_nobody_can_take_do_not_keep_the_others_running(
    flags: tuple[str, ...], stderr: Callable[[], AbstractContextManager[int]]
) -> None:
    with stderr() as descriptor:
        done = run(
            *HOROVODRUN, "--verbose", *flags, sys.executable, "-c", FAILING, stderr=descriptor
        )
    assert done.returncode == 3


def test_a_standard_error_that_is_closed_does_not_keep_the_others_running() -> None:
    without = ("sh", "-c", 'exec "$@" 2>&-', "sh")
    assert run(*without, *HOROVODRUN, sys.executable, "-c", FAILING).returncode == 3


def test_a_full_standard_output_does_not_change_the_exit_code() -> None:
    with full() as descriptor:
        done = run(*HOROVODRUN, "echo", "word", stdout=descriptor)
    assert done.stderr.startswith("horovodrun: no more output goes to stdout: No space left")
    assert done.returncode == 0


@pytest.mark.parametrize("flags", [(), ELASTIC], ids=["fixed", "elastic"])
@pytest.mark.parametrize(
    ("work", "code", "reason"),
    [
        ("_accept", 2, "horovodrun: error: cannot start the store's thread: "),
        ("_serve", 1, "horovodrun: cannot start a thread that serves a rank: "),
        ("_watch", 127, "cannot start a worker's watcher: "),
        ("_pump", 127, "cannot start a thread for a worker's output: "),
    ],
)
def test_a_thread_that_cannot_be_started_ends_the_job_with_a_reason(
    flags: tuple[str, ...], work: str, code: int, reason: str
) -> None:
    launcher = (sys.executable, "-c", WITHOUT_THREADS, work, "-np", "2", *flags)
    done = run(*launcher, sys.executable, "-c", MEETING)
    assert done.returncode == code, done.stderr
    # Of ranks the first one alone may say so: the other is not started any more then.
    said = [
        line for line in done.stderr.splitlines() if re.match(rf"(\[.\]<stderr>:)?{reason}", line)
    ]
    assert said
    assert len(said) == len(set(said))
    assert all("`ulimit -u`, the pids limit of the cgroup" in line for line in said)
    assert "can't start new thread" not in done.stderr


def test_others_are_ended_one_after_the_other_when_no_thread_can_end_them() -> None:
    launcher = (sys.executable, "-c", WITHOUT_THREADS, "stop", "-np", "2")
    done = run(*launcher, sys.executable, "-c", FAILING)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


def without_loopback(commands: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    """A job on a host of its own, whose loopback interface some commands change."""
    if why := networks.missing():
        pytest.skip(f"no network namespaces: {why}")
    host = ("unshare", "--net", "sh", "-ec", f'{commands}; exec "$@"', "sh")
    return run(*host, *HOROVODRUN, *flags, sys.executable, "-c", MEETING)


@pytest.mark.parametrize("flags", [(), ELASTIC], ids=["fixed", "elastic"])
def test_a_host_whose_loopback_has_ipv6_alone(flags: tuple[str, ...]) -> None:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    done = without_loopback("ip link set lo up; ip -4 address del 127.0.0.1/8 dev lo", *flags)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:2", "[1]<stdout>:2"]


def test_a_host_without_loopback_is_told_so() -> None:
    done = without_loopback("true")  # the interface is down
    assert done.returncode == 2
    assert done.stderr.startswith(
        "horovodrun: error: this host has no loopback address: neither 127.0.0.1 nor ::1"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flags", [(), ELASTIC], ids=["fixed", "elastic"])
@pytest.mark.parametrize("both", [False, True], ids=["stdout", "stderr too"])
def test_a_signal_ends_a_launcher_whose_output_nobody_reads(
    flags: tuple[str, ...], *, both: bool
) -> None:
    reading, writing = os.pipe()
    code = "import os, sys\nwhile True: sys.stdout.write('x' * 999 + '\\n')"
    launcher = subprocess.Popen(
        [*HOROVODRUN, *flags, sys.executable, "-c", code],
        stdout=writing,
        stderr=writing if both else subprocess.DEVNULL,
        env=clean_environment(),
    )
    os.close(writing)
    try:
        wait_until_full(reading)
        launcher.terminate()
        assert launcher.wait(60) == 128 + signal.SIGTERM
    finally:
        launcher.kill()
        launcher.wait()
        os.close(reading)


def wait_until_full(pipe: int) -> None:
    """Returns when nobody has written to a pipe for a while, which some have filled."""
    held, before = 0, -1
    while not held or held != before:
        time.sleep(1)
        held, before = waiting_bytes(pipe), held


def waiting_bytes(pipe: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]
