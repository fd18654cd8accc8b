"""Workers on another host: one ssh connection per host, an agent at its other end."""

import re
import shlex
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from horovod.runner.output import STREAMS
from horovod.runner.process_groups import TERMINATE_SECONDS
from horovod.runner.processes import CANNOT_START, exit_code
from horovod.runner.remote import EXIT, GREETING, Order, read_frames
from horovod.runner.threads import ThreadError, start_thread, why_not_started

CONNECT_SECONDS = 10
CONNECT_ATTEMPTS = 5
CONNECTION_FAILED = 255  # ssh's own exit code
_LONGEST_PREAMBLE = 1 << 20  # bytes of login messages before the agent's greeting

# What belongs to one host or one login and is wrong elsewhere.
_NOT_FORWARDED = re.compile(
    r"BASH_FUNC_.*|OLDPWD|PWD|SHLVL|_|HOSTNAME|.*CUDA_VISIBLE_DEVICES|_?HOROVOD_SECRET_KEY|SSH_.*|XDG_.*|DBUS_.*"
)


@dataclass(frozen=True)
class SshOptions:
    """How to reach other hosts.

    Attributes:
        port: None for ssh's own choice.
        identity_file: a private key; None for ssh's own choice.
    """

    port: int | None
    identity_file: str | None


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that makes sense on another host."""
    return {
        name: value for name, value in environment.items() if not _NOT_FORWARDED.fullmatch(name)
    }


def ssh_command(hostname: str, options: SshOptions, python: str) -> list[str]:
    """The command that runs the agent on another host. Neither secret nor environment appear in it.

    Args:
        hostname: as the user wrote it; ssh's own configuration may know it.
        options: the user's wishes.
        python: path of the interpreter over there.
    """
    command = ["ssh", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no"]
    command += ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    command += ["-o", f"ConnectionAttempts={CONNECT_ATTEMPTS}"]
    if options.port is not None:
        command += ["-p", str(options.port)]
    if options.identity_file is not None:
        command += ["-i", options.identity_file]
    return [*command, hostname, f"{shlex.quote(python)} -m horovod.runner.remote"]


class RemoteWorkers:
    """Runs the workers of one other host.

    Args:
        hostname: of the host.
        options: how to reach it.
        order: what to do there.
        on_output: called with rank, stream and bytes.
        on_exit: called once per worker with rank and exit code.
        on_message: called with what ssh itself has to say.
    """

    def __init__(
        self,
        hostname: str,
        options: SshOptions,
        order: Order,
        on_output: Callable[[int, str, bytes], None],
        on_exit: Callable[[int, int], None],
        on_message: Callable[[str], None],
    ) -> None:
        self._hostname = hostname
        self._command: Sequence[str] = ssh_command(hostname, options, sys.executable)
        self._order = order
        self._on_output = on_output
        self._on_exit = on_exit
        self._on_message = on_message
        self._lock = threading.Lock()
        self._ssh: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Connects, and has the workers started; without ssh they are reported as ended (127)."""
        try:
            ssh = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._give_up(f"cannot start {self._command[0]!r}: {why_not_started(error)}")
            return
        self._ssh = ssh
        unread = [ssh.stdout, ssh.stderr]
        try:
            self._start_thread(self._send_order, ssh)
            complaints = self._start_thread(self._pass_messages, ssh.stderr)
            unread = [ssh.stdout]
            self._start_thread(self._watch, ssh, complaints)
        except ThreadError as error:
            ssh.kill()
            ssh.wait()
            for pipe in unread:
                if pipe is not None:
                    pipe.close()
            self._give_up(str(error))

    def _start_thread(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        what = f"a thread for the connection to {self._hostname}"
        self._threads.append(start_thread(work, what, *arguments))
        return self._threads[-1]

    def _give_up(self, reason: str) -> None:
        """Says why the workers do not run."""
        self._on_message(f"{reason}\n")
        for rank in self._order.workers:
            self._on_exit(rank, CANNOT_START)

    def stop(self) -> None:
        """Has the agent end its workers; ends the connection if that takes too long."""
        ssh = self._ssh
        if ssh is None:
            return
        self._hang_up(ssh)
        try:
            ssh.wait(3 * TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            self._on_message(f"the agent on {self._hostname} does not end; giving it up\n")
        self.kill()

    def kill(self) -> None:
        """Ends the connection at once; the agent over there ends its workers when it notices."""
        if self._ssh is not None:
            self._ssh.kill()
        for thread in self._threads:
            thread.join()

    def _hang_up(self, ssh: "subprocess.Popen[bytes]") -> None:
        if not self._lock.acquire(timeout=TERMINATE_SECONDS):
            ssh.kill()  # it has not even taken the order yet
            return
        try:
            if ssh.stdin is not None:
                ssh.stdin.close()
        except BrokenPipeError:
            return  # the connection has ended already
        finally:
            self._lock.release()

    def _send_order(self, ssh: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            if ssh.stdin is None or ssh.stdin.closed:
                return
            try:
                ssh.stdin.write(self._order.encode())
                ssh.stdin.flush()
            except BrokenPipeError:
                return  # no connection; its exit code says so

    def _watch(self, ssh: "subprocess.Popen[bytes]", complaints: threading.Thread) -> None:
        ended: set[int] = set()
        if ssh.stdout is not None:
            greeted = _skip_preamble(ssh.stdout)
            for kind, rank, payload in read_frames(ssh.stdout) if greeted else ():
                if kind == EXIT:
                    ended.add(rank)
                    self._on_exit(rank, struct.unpack("<i", payload)[0])
                else:
                    self._on_output(rank, STREAMS[kind], payload)
        status = ssh.wait()
        self._hang_up(ssh)
        complaints.join()
        missing = [rank for rank in self._order.workers if rank not in ended]
        if missing:
            self._on_message(
                f"the connection to {self._hostname} ended with code {exit_code(status)} before its"
                f" ranks {', '.join(map(str, missing))} did\n"
            )
        for rank in missing:
            self._on_exit(rank, exit_code(status) or CONNECTION_FAILED)

    def _pass_messages(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            with pipe:
                for line in pipe:
                    self._on_message(line.decode(errors="replace"))


def _skip_preamble(pipe: IO[bytes]) -> bool:
    """Reads up to the agent's greeting; False when it does not come."""
    seen = b"\n"
    for _ in range(_LONGEST_PREAMBLE):
        byte = pipe.read(1)
        if not byte:
            return False
        seen = (seen + byte)[-len(GREETING) :]
        if seen == GREETING:
            return True
    return False
