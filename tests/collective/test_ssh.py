"""Ranks on another host: a real ssh server on the loopback, with keys made for the test."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from collective.launching import (
    RANKS,
    expect_a_rank_to_end_with_the_launcher,
    horovodrun,
    is_running,
    wait_until_gone,
)
from horovod.runner.core_shares import usable_cores

pytestmark = pytest.mark.ssh

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
REMOTE = "127.0.0.2"  # this machine, but not under a name that is started without ssh


@dataclass(frozen=True)
class Server:
    """An ssh server, and the key that opens it."""

    port: int
    key: Path

    def flags(self, hosts: str) -> list[str]:
        return ["-H", hosts, "-p", str(self.port), "-i", str(self.key)]


def make_key(path: Path) -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, timeout=60
    )
    return path


def free_port() -> int:
    with socket.create_server((REMOTE, 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def wait_until_open(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 30
    with socket.socket() as probe:
        while probe.connect_ex((REMOTE, port)) != 0:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if SSHD is None:
        pytest.skip("sshd is not installed")
    folder = tmp_path_factory.mktemp("ssh")
    host_key, user_key = make_key(folder / "host"), make_key(folder / "user")
    shutil.copy(user_key.with_suffix(".pub"), folder / "authorized_keys")
    port = free_port()
    settings = {
        "ListenAddress": f"{REMOTE}:{port}",
        "HostKey": host_key,
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": folder / "pid",
        "StrictModes": "no",  # the test's folder may lie in one that all may write to
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "AllowUsers": getpass.getuser(),
    }
    (folder / "config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where Debian's sshd insists to separate
    log = folder / "log"
    with subprocess.Popen([SSHD, "-D", "-f", folder / "config", "-E", log]) as process:
        try:
            wait_until_open(port, process, log)
            yield Server(port, user_key)
        finally:
            process.terminate()


def test_ranks_of_two_hosts_work_together(server: Server) -> None:
    launched = horovodrun(
        "-np", "3", *server.flags(f"localhost:1,{REMOTE}:2"), sys.executable, RANKS / "place.py",
        env={"MINE": "kept", "CUDA_VISIBLE_DEVICES": "7", "HOROVOD_TRANSPORT": "tcp"},
    )  # fmt: skip
    assert launched.code == 0, launched.err
    here = str(Path(__file__).parent)
    own = [here, str(max(1, usable_cores() // 2))]
    assert launched.lines(0) == [
        "0/3 local 0/1 cross 0/2 tcp sum 6.0 kept 7 localhost",
        here,
        "None",
    ]
    assert launched.lines(1) == [f"1/3 local 0/2 cross 1/2 tcp sum 6.0 kept None {REMOTE}", *own]
    assert launched.lines(2) == [f"2/3 local 1/2 cross 0/1 tcp sum 6.0 kept None {REMOTE}", *own]


def test_nothing_secret_is_on_a_command_line(server: Server) -> None:
    launched = horovodrun(
        "-np", "1", *server.flags(f"{REMOTE}:1"), sys.executable, RANKS / "show_processes.py"
    )
    assert launched.code == 0, launched.err
    (secret, *commands) = launched.lines(0)
    assert len(secret) == 64
    assert any("horovod.runner.remote" in command for command in commands)
    assert not any(secret in command for command in commands)


def test_a_remote_failure_ends_the_job_with_its_code(server: Server) -> None:
    launched = horovodrun(
        "-np", "2", *server.flags(f"localhost:1,{REMOTE}:1"), sys.executable,
        RANKS / "with_children.py", "fail",
    )  # fmt: skip
    assert launched.code == 9
    assert "Process name: 1\nExit code: 9\n" in launched.err
    for rank in (0, 1):
        wait_until_gone(*map(int, launched.lines(rank)[0].split()))


def test_output_of_remote_ranks_is_kept_in_files(server: Server, tmp_path: Path) -> None:
    launched = horovodrun(
        "-np", "1", *server.flags(f"{REMOTE}:1"), "--output-filename", tmp_path,
        sys.executable, "-c", "print('from afar', end='')",
    )  # fmt: skip
    assert launched.lines(0) == ["from afar"]
    assert (tmp_path / "rank.0" / "stdout").read_text() == "from afar"


def test_terminals_that_the_configuration_of_ssh_asks_for_are_not_taken(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("RequestTTY force\n")
    wrapper = tmp_path / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/config "$@"\n')
    wrapper.chmod(0o755)
    launched = horovodrun(
        "-np", "1", *server.flags(f"{REMOTE}:1"), "sh", "-c", "printf 'a\\n'; printf 'b\\n' >&2",
        env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert (launched.code, launched.lines(0)) == (0, ["a"]), launched.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_agent_ends_its_workers_when_the_launcher_goes(
    server: Server, number: signal.Signals
) -> None:
    expect_a_rank_to_end_with_the_launcher(number, server.flags(f"{REMOTE}:1"))


def test_a_host_that_refuses_us_is_named(server: Server, tmp_path: Path) -> None:
    stranger = Server(server.port, make_key(tmp_path / "other"))
    launched = horovodrun("-np", "1", *stranger.flags(f"{REMOTE}:1"), "true")
    assert launched.code == 255
    assert "Permission denied" in launched.err
    assert f"the connection to {REMOTE} ended with code 255 before its ranks 0 did" in launched.err


@pytest.mark.parametrize("held", ["stdout", "stderr"])
@pytest.mark.parametrize("work", ["true", "kill -KILL $PPID; sleep 600"])
def test_what_a_login_shell_leaves_running_keeps_nobody_waiting(
    server: Server, tmp_path: Path, work: str, held: str
) -> None:
    client, stranger = tmp_path / "client", tmp_path / "stranger"
    streams = {"stdout": "2>/dev/null", "stderr": ">/dev/null"}
    login = f"sh -c 'echo $$ >{stranger}; exec sleep 600' </dev/null {streams[held]} & "
    program = tmp_path / "ssh"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"open({str(client)!r}, 'w').write(str(os.getpid()))\n"
        f"sys.argv[-1] = {login!r} + sys.argv[-1]\n"
        f"os.execv({shutil.which('ssh')!r}, sys.argv)\n"
    )
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    try:
        launched = horovodrun(
            "-np", "1", *server.flags(f"{REMOTE}:1"), "sh", "-c", work, env={"PATH": path}
        )
        assert not is_running(int(client.read_text()))
        assert is_running(int(stranger.read_text()))
    finally:
        os.kill(int(stranger.read_text()), signal.SIGKILL)
    lost = f"the agent on {REMOTE} ended, though not the connection to it, before its ranks 0 did"
    assert (launched.code, lost in launched.err) == ((0, False) if work == "true" else (255, True))


def test_an_elastic_job_outlives_a_worker_of_another_host(server: Server) -> None:
    hosts = server.flags(f"localhost:1,{REMOTE}:1")
    launched = horovodrun(
        "-np", "2", "--min-np", "1", *hosts, sys.executable, RANKS / "elastic_count.py"
    )
    assert launched.code == 0, launched.out + launched.err
    assert f"Worker 1 (rank 1) on {REMOTE} ended with code 137." in launched.err
    assert f"No more workers are started on {REMOTE} for now." in launched.err
    (sizes,) = launched.lines(0)
    # What was not committed when the other died is counted anew, alone.
    assert sizes in ("2 2 2 2 1 1 1 1 1 1", "2 2 2 2 2 1 1 1 1 1")
