"""`horovodrun` where containers grant less than machines do: silent name servers, refused calls."""

import subprocess
import sys
from pathlib import Path

import pytest

from collective import networks, refusing_calls
from collective.launching import LAUNCH_SECONDS, clean_environment

HOROVODRUN = (sys.executable, "-m", "horovod.runner", "-np", "2")
ELASTIC = ("--min-np", "2", "--max-np", "2")
MEETING = "import horovod.array as hvd; hvd.init(); hvd.barrier(); print(hvd.size())"

# Runs a command beside a name server that does not answer; prints how often that was asked.
SILENT_NAME_SERVER = """
import socket, subprocess, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
code = subprocess.run(sys.argv[1:]).returncode
server.setblocking(False)
questions = 0
while True:
    try:
        server.recv(512)
    except BlockingIOError:
        break
    questions += 1
print("questions:", questions)
sys.exit(code)
"""
POD = """
ip link set lo up
hostname pod-abc
mount --bind "$1/hosts" /etc/hosts
mount --bind "$1/resolv.conf" /etc/resolv.conf
shift
exec "$@"
"""
FUNCTION = f"""
import horovod, sys
def meet():
    exec({MEETING!r})
horovod.run(meet, num_proc=2)
"""


def unshare(*words: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command in namespaces of its own."""
    if why := networks.missing():
        pytest.skip(f"no namespaces: {why}")
    return run("unshare", *words)


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command; fails the test when it does not end."""
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=LAUNCH_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    "job",
    [
        (*HOROVODRUN, sys.executable, "-c", MEETING),
        (*HOROVODRUN, *ELASTIC, sys.executable, "-c", MEETING),
        (*HOROVODRUN, "-H", "pod-abc:1,127.0.0.1:1", sys.executable, "-c", MEETING),
        (sys.executable, "-c", FUNCTION),
    ],
    ids=["fixed", "elastic", "own name and address", "function"],
)
def test_a_local_job_asks_no_name_server(job: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")  # and not the host's own name
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    spaces = ("--net", "--uts", "--mount", "--propagation", "private")
    shell = ("sh", "-ec", POD, "sh", str(tmp_path))
    done = unshare(*spaces, *shell, sys.executable, "-c", SILENT_NAME_SERVER, *job)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "questions: 0"
    assert done.stdout.count("]<stdout>:2\n") == 2


def job_without(call: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    """A job of two ranks for which the kernel refuses a call."""
    if call not in refusing_calls.NUMBERS:
        pytest.skip(f"the number of {call} is not known here")
    without = (sys.executable, refusing_calls.__file__, "EPERM", call)
    if why := run(*without, "true").stderr:
        pytest.skip(f"no filter of calls: {why}")
    return run(*without, *HOROVODRUN, *flags, sys.executable, "-c", MEETING)


@pytest.mark.parametrize("call", ["waitid", "prlimit64"])
@pytest.mark.parametrize("flags", [(), ELASTIC], ids=["fixed", "elastic"])
def test_a_job_runs_without_calls_that_a_container_refuses(
    flags: tuple[str, ...], call: str
) -> None:
    done = job_without(call, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("]<stdout>:2\n") == 2
    assert done.stderr == ""


def test_threads_that_a_container_refuses_may_be_for_want_of_clone3() -> None:
    done = job_without("clone3")
    if done.returncode == 0:
        pytest.skip("this C library makes threads without clone3")
    assert done.returncode == 2
    assert "cannot start the store's thread: " in done.stderr
    assert "seccomp profile may refuse clone3" in done.stderr
    assert "Traceback" not in done.stderr
