"""`horovodrun` as a container's first process, which is process 1 of a namespace here."""

import errno
import os
import pty
import signal
import subprocess
import sys

import pytest

from collective import networks
from collective.launching import LAUNCH_SECONDS, clean_environment

HOROVODRUN = (sys.executable, "-m", "horovod.runner")

# Has a process end whose parent has ended before, and returns when nobody has to wait for it.
LEAVE_ORPHAN = """
import os, subprocess, time
left = "cat >/dev/null 2>&1 <&3 & echo $!"
mine, its = os.pipe()
started = subprocess.run(
    ["sh", "-c", left.replace("3", str(mine))], pass_fds=[mine], stdout=subprocess.PIPE, check=True
)
os.close(its)
orphan = f"/proc/{int(started.stdout)}"
deadline = time.monotonic() + 60
while os.path.exists(orphan) and time.monotonic() < deadline:
    time.sleep(0.01)
print("orphan is", "there" if os.path.exists(orphan) else "gone")
"""
# With a handler and `pause`, a signal that comes in front of `pause` would wake nobody.
ASK_TO_END = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(1, {number})
signal.sigwait([signal.SIGTERM])
print("asked")
sys.exit(3)
"""


SPACES = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def require_namespaces() -> None:
    if why := networks.missing():
        pytest.skip(f"no namespaces: {why}")


def as_first_process(*words: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command as process 1 of a namespace."""
    require_namespaces()
    return subprocess.run(
        (*SPACES, *words),
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=LAUNCH_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("flags", [(), ("--min-np", "1")], ids=["fixed", "elastic"])
def test_what_ranks_leave_running_is_waited_for(flags: tuple[str, ...]) -> None:
    done = as_first_process(*HOROVODRUN, "-np", "1", *flags, sys.executable, "-c", LEAVE_ORPHAN)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0]<stdout>:orphan is gone\n"
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_for_the_container_ends_the_job_in_order(number: signal.Signals) -> None:
    program = ASK_TO_END.format(number=int(number))
    done = as_first_process(*HOROVODRUN, "-np", "1", sys.executable, "-c", program)
    assert done.returncode == 128 + number, done.stderr
    assert done.stdout == "[0]<stdout>:asked\n"


def read_until(terminal: int, awaited: bytes) -> bytes:
    """What a terminal shows, up to some bytes or its end."""
    shown = b""
    while awaited not in shown:
        try:
            more = os.read(terminal, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:  # nobody has it open any more
                raise
            more = b""
        if not more:
            break
        shown += more
    return shown


def test_a_terminal_that_hangs_up_ends_the_job() -> None:
    require_namespaces()
    terminal, end = pty.openpty()
    rank = ("sh", "-c", "echo there; exec sleep 600")
    with subprocess.Popen(
        # `setsid` is process 1, leads the terminal's session and becomes the launcher.
        (*SPACES, "setsid", "--ctty", *HOROVODRUN, "-np", "1", *rank),
        stdin=end,
        stdout=end,
        stderr=end,
        env=clean_environment(),
    ) as first:
        os.close(end)
        try:
            shown = read_until(terminal, b"there")
        finally:
            os.close(terminal)
        try:
            code = first.wait(LAUNCH_SECONDS)
        finally:
            first.kill()
    assert b"[0]<stdout>:there" in shown
    assert code == 128 + signal.SIGHUP


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-np", "1", "sh", "-c", "exit 5"), 5),
        (("-np", "1", "sh", "-c", "kill -9 $$"), 137),
        (("--check-build",), 0),
        (("--nosuch",), 2),
    ],
)
def test_the_container_ends_with_the_code_of_the_job(arguments: tuple[str, ...], code: int) -> None:
    done = as_first_process(*HOROVODRUN, *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
