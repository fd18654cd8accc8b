"""`horovodrun` where containers grant less than machines do: a name server that does not answer."""

import subprocess
import sys
from pathlib import Path

import pytest

from collective import networks
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
    return subprocess.run(
        ["unshare", *words],
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
