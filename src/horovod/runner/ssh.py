"""Workers on another host: one connection per host, by ssh, an agent at its other end."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Any

from horovod._settings import RENDEZVOUS_ADDRESS
from horovod.runner.call_back import KEY_MARK, CallError, ExpectedCall
from horovod.runner.connection_errors import describe_end, describe_silence
from horovod.runner.network import NetworkError
from horovod.runner.output import STREAMS
from horovod.runner.process_groups import TERMINATE_SECONDS, signal_group
from horovod.runner.processes import CANNOT_START, exit_code
from horovod.runner.remote import (
    EXIT,
    GREETING,
    STARTED,
    Order,
    agent_command,
    read_exit,
    read_frames,
    skip_preamble,
    stop_one,
)
from horovod.runner.threads import ThreadError, start_thread, why_not_started

CONNECT_SECONDS = 10
CONNECT_ATTEMPTS = 5
# Until a host's agent answers, where the user has set no time for the start: ssh alone may take
# half of it to connect.
GREETING_SECONDS = 2.0 * CONNECT_SECONDS * CONNECT_ATTEMPTS
# A host that has vanished closes no connection; without these, ssh would wait for it for ever.
ALIVE_SECONDS = 30
ALIVE_QUESTIONS = 4
CONNECTION_FAILED = 255  # ssh's own exit code

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
        kubexec: Kubeflow's program that is used in place of ssh; None for ssh.
    """

    port: int | None
    identity_file: str | None
    kubexec: str | None = None

    @property
    def any_name(self) -> bool:
        """Whether hosts are reached by names that need not have addresses here: pods' are."""
        return self.kubexec is not None


def find_kubexec(environment: Mapping[str, str]) -> str | None:
    """Kubeflow's program for commands in other pods, where it is what mpirun would use.

    Other programs that mpirun is told to use need not do what ssh does.
    """
    agent = environment.get("OMPI_MCA_plm_rsh_agent", "")
    return agent if PurePath(agent).name == "kubexec.sh" else None


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that makes sense on another host."""
    return {
        name: value for name, value in environment.items() if not _NOT_FORWARDED.fullmatch(name)
    }


def ssh_command(hostname: str, options: SshOptions, python: str) -> list[str]:
    """The command that runs the agent on another host.

    No secret and no environment appear in it, but for the paths by which it is found.

    Args:
        hostname: as the user wrote it; ssh's own configuration may know it.
        options: the user's wishes.
        python: path of the interpreter over there.
    """
    # No terminal, whatever ssh's configuration wants: it would change the bytes of the frames.
    command = ["ssh", "-T", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no"]
    command += ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    command += ["-o", f"ConnectionAttempts={CONNECT_ATTEMPTS}"]
    command += ["-o", f"ServerAliveInterval={ALIVE_SECONDS}"]
    command += ["-o", f"ServerAliveCountMax={ALIVE_QUESTIONS}"]
    if options.port is not None:
        command += ["-p", str(options.port)]
    if options.identity_file is not None:
        command += ["-i", options.identity_file]
    return [*command, hostname, agent_command(python)]


class RemoteWorkers:
    """Runs the workers of one other host.

    Args:
        hostname: of the host.
        options: how to reach it.
        order: what to do there.
        on_output: called with rank, stream and bytes.
        on_exit: called once per worker with rank and exit code.
        on_message: called with what ssh itself has to say.
        patience: seconds for the agent to answer; then its workers are reported as ended (255).
    """

    def __init__(
        self,
        hostname: str,
        options: SshOptions,
        order: Order,
        on_output: Callable[[int, str, bytes], None],
        on_exit: Callable[[int, int], None],
        on_message: Callable[[str], None],
        patience: float = GREETING_SECONDS,
    ) -> None:
        self._hostname = hostname
        self._command: Sequence[str] = ssh_command(hostname, options, sys.executable)
        self._order = order
        self._on_output = on_output
        self._on_exit = on_exit
        self._on_message = on_message
        self._patience = patience
        self._kubexec = options.kubexec
        self._call: ExpectedCall | None = None
        self._lock = threading.Lock()
        self._ended: set[int] = set()
        self._started = False  # an agent, which may have no order yet
        self._greeted = False
        self._given_up = False
        self._changed = threading.Condition()  # one of the two above
        self._ssh: subprocess.Popen[bytes] | None = None
        self._unwanted = threading.Event()  # all are to end, even before they have been started
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Connects, and has the workers started; without ssh they are reported as ended (127)."""
        if self._unwanted.is_set():
            for rank in self._order.workers:
                self._report(rank, exit_code(-signal.SIGTERM))
            return
        if self._kubexec is not None:
            try:
                self._expect_call(self._kubexec)
            except NetworkError as error:
                self._give_up(str(error))
                return
        try:
            ssh = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE if self._call is None else subprocess.DEVNULL,
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
            if self._call is None:
                self._start_thread(self._send_order, ssh)
            complaints = self._start_thread(self._pass_messages, ssh.stderr)
            unread = [ssh.stdout]
            self._start_thread(self._await_greeting, ssh)
            self._start_thread(self._watch, ssh, complaints)
        except ThreadError as error:
            ssh.kill()
            ssh.wait()
            for pipe in unread:
                if pipe is not None:
                    pipe.close()
            self._give_up(str(error))
        else:
            if self._unwanted.is_set():  # perhaps too early to find the connection
                self.kill()

    def _expect_call(self, kubexec: str) -> None:
        """Makes the command for an agent that calls for its order.

        Raises:
            NetworkError: nothing can listen where the workers of that host reach this one.
        """
        self._call = ExpectedCall(self._order.environment[RENDEZVOUS_ADDRESS.name].split(","))
        agent = agent_command(sys.executable, self._call.endpoints)
        self._command = [kubexec, self._hostname, agent]

    def _start_thread(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        what = f"a thread for the connection to {self._hostname}"
        self._threads.append(start_thread(work, what, *arguments, daemon=True))
        return self._threads[-1]

    def _give_up(self, reason: str) -> None:
        """Says why the workers do not run."""
        if self._call is not None:
            self._call.close()
        self._on_message(f"{reason}\n")
        for rank in self._order.workers:
            self._report(rank, CANNOT_START)

    def _report(self, rank: int, code: int) -> None:
        """Says that a worker has ended, once."""
        with self._changed:
            if rank in self._ended:
                return
            self._ended.add(rank)
            self._changed.notify_all()
        self._on_exit(rank, code)

    def stop(self) -> None:
        """Has the agent end its workers; ends the connection if that takes too long."""
        self._unwanted.set()
        ssh = self._ssh
        if ssh is None:
            return
        try:
            self._hang_up(ssh)
            ssh.wait(3 * TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            self._on_message(f"the agent on {self._hostname} does not end; giving it up\n")
        finally:
            self.kill()

    def stop_one(self, rank: int) -> None:
        """Has the agent end a worker; ends the connection if that takes too long.

        The agent is told when it has greeted. Until then it is no sign of trouble that the worker
        has not ended, and the others of the host need the connection.
        """
        ssh = self._ssh
        if ssh is None:
            return
        given_up = self._patience + 2 * TERMINATE_SECONDS  # by _await_greeting, before that
        with self._changed:
            self._changed.wait_for(lambda: self._greeted or rank in self._ended, given_up)
            told = self._greeted
        if told:
            self._tell(ssh, stop_one(rank))
            with self._changed:
                self._changed.wait_for(lambda: rank in self._ended, 3 * TERMINATE_SECONDS)
        if rank not in self._ended:
            self._on_message(f"the agent on {self._hostname} does not answer; giving it up\n")
            self.kill()

    def _tell(self, ssh: "subprocess.Popen[bytes]", line: bytes) -> None:
        """Sends the agent something after the order; nothing where the connection has ended."""
        if self._lock.acquire(timeout=TERMINATE_SECONDS):
            try:
                if self._call is not None:
                    self._call.send(line)
                elif ssh.stdin is not None and not ssh.stdin.closed:
                    ssh.stdin.write(line)
                    ssh.stdin.flush()
            except BrokenPipeError:
                pass  # the connection has ended already
            finally:
                self._lock.release()

    def kill(self) -> None:
        """Ends the connection at once; the agent over there ends its workers when it notices."""
        self._unwanted.set()
        ssh = self._ssh
        if ssh is None:
            return
        self._disconnect(ssh)
        if not self.gone:
            signal_group(ssh.pid, signal.SIGKILL)  # what it has started may hold its pipes open
        self._hang_up(ssh)
        deadline = time.monotonic() + TERMINATE_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))
        self._report_all()  # should a stranger hold them still

    @property
    def gone(self) -> bool:
        """Whether the connection that `start` has made has ended, and all workers with it."""
        return not any(thread.is_alive() for thread in self._threads)

    def _hang_up(self, ssh: "subprocess.Popen[bytes]") -> None:
        if self._call is not None:
            self._call.close()
            return
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

    def _disconnect(self, ssh: "subprocess.Popen[bytes]") -> None:
        if self._call is not None:
            self._call.close()
            # kubexec.sh is a shell's script; what it runs holds the output open.
            signal_group(ssh.pid, signal.SIGKILL)
        ssh.kill()

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
        read = False
        try:
            if ssh.stdout is not None:
                with ssh.stdout as pipe:
                    if self._answer_call(ssh):
                        self._pass_frames(pipe)
            read = True
        finally:
            try:
                if not read:
                    self._disconnect(ssh)
                self._conclude(ssh, complaints)
            finally:
                self._report_all()

    def _report_all(self) -> None:
        """Says of all workers whose end nobody has told that they are lost with the connection."""
        for rank in self._order.workers:
            self._report(rank, CONNECTION_FAILED)

    def _conclude(self, ssh: "subprocess.Popen[bytes]", complaints: threading.Thread) -> None:
        """Reports the workers whose end nobody has told when the connection has ended."""
        status = exit_code(ssh.wait())
        self._hang_up(ssh)
        complaints.join()
        missing = [rank for rank in self._order.workers if rank not in self._ended]
        if missing and not self._given_up:
            text = describe_end(
                self._hostname, status, missing, sys.executable, started=self._started
            )
            self._on_message(f"{text}\n")
        for rank in missing:
            code = CONNECTION_FAILED if self._given_up else status
            self._report(rank, code or CONNECTION_FAILED)

    def _await_greeting(self, ssh: "subprocess.Popen[bytes]") -> None:
        """Ends a connection over which no agent answers: a program over there may hang."""
        ranks = self._order.workers

        def settled() -> bool:
            return self._greeted or len(self._ended) == len(ranks)

        with self._changed:
            if self._changed.wait_for(settled, self._patience):
                return
            self._given_up = True
        text = describe_silence(
            self._hostname, self._patience, ranks, self._command[0], started=self._started
        )
        self._on_message(f"{text}\n")
        try:
            self._disconnect(ssh)
            signal_group(ssh.pid, signal.SIGKILL)  # what it has started may hold its pipes open
            with self._changed:
                self._changed.wait_for(settled, TERMINATE_SECONDS)
        finally:
            self._report_all()  # should a stranger hold them still

    def _pass_frames(self, pipe: IO[bytes]) -> None:
        while (mark := skip_preamble(pipe, STARTED, GREETING)) == STARTED:
            self._started = True
        if not mark:
            return
        with self._changed:
            self._greeted = True
            self._changed.notify_all()
        for kind, rank, payload in read_frames(pipe, self._pass_stray):
            if kind == EXIT:
                self._report(rank, read_exit(payload))
            else:
                self._on_output(rank, STREAMS[kind], payload)

    def _pass_stray(self, text: bytes) -> None:
        words = text.decode(errors="replace").rstrip()
        self._on_message(f"{self._hostname}, from something beside the ranks: {words}\n")

    def _answer_call(self, ssh: "subprocess.Popen[bytes]") -> bool:
        """Gives an agent that calls its order; False when it does not call."""
        if self._call is None or ssh.stdout is None:
            return True
        if not skip_preamble(ssh.stdout, KEY_MARK):
            return False
        self._started = True
        try:
            self._call.answer(ssh.stdout, self._order.encode())
        except CallError as error:
            self._on_message(f"{self._hostname}: {error}\n")
            self._disconnect(ssh)
            return False
        return True

    def _pass_messages(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            with pipe:
                for line in pipe:
                    words = line.decode(errors="replace").rstrip()
                    self._on_message(f"{self._hostname}: {words}\n")
