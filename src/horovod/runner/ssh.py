"""Workers on another host: one connection per host, by ssh, an agent at its other end."""

import enum
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any

from horovod._settings import RENDEZVOUS_ADDRESS
from horovod.runner.call_back import KEY_MARK, CallError, ExpectedCall
from horovod.runner.connection import Connection
from horovod.runner.connection_errors import (
    describe_end,
    describe_lost_agent,
    describe_silence,
)
from horovod.runner.network import NetworkError
from horovod.runner.output import STREAMS
from horovod.runner.process_groups import TERMINATE_SECONDS
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
from horovod.runner.ssh_options import (
    CONNECT_ATTEMPTS,
    CONNECT_SECONDS,
    SshOptions,
    ssh_command,
)
from horovod.runner.threads import ThreadError, start_thread, why_not_started
from horovod.runner.witness import GONE

# Until a host's agent answers, where the user has set no time for the start: ssh alone may take
# half of it to connect.
GREETING_SECONDS = 2.0 * CONNECT_SECONDS * CONNECT_ATTEMPTS
CONNECTION_FAILED = 255  # ssh's own exit code


class _Sign(enum.Enum):
    """What has been seen of a connection."""

    GREETED = "the agent has answered"
    READ = "its output has been read to the end"
    HEARD = "so have all complaints"
    AGENT_GONE = "its witness has said so"
    PROGRAM_ENDED = "that which connects"


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
        on_lost: called in place of `on_exit` with the connection's code, where nobody has told the
            worker's; None for the same.
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
        on_lost: Callable[[int, int], None] | None = None,
    ) -> None:
        self._hostname = hostname
        self._command: Sequence[str] = ssh_command(hostname, options, sys.executable)
        self._order = order
        self._on_output = on_output
        self._on_exit = on_exit
        self._on_lost = on_lost or on_exit
        self._on_message = on_message
        self._patience = patience
        self._kubexec = options.kubexec
        self._call: ExpectedCall | None = None
        self._changed = threading.Condition()  # any of the following
        self._ended: set[int] = set()
        self._unwanted_ranks: set[int] = set()
        self._signs: set[_Sign] = set()
        self._started = False  # an agent, which may have no order yet
        self._given_up = False
        self._passed = 0  # frames
        self._passing = False
        self._unwanted = threading.Event()  # all are to end, even before they have been started
        self._concluded = threading.Event()  # the connection has ended, and all have been reported
        self._connection: Connection | None = None
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
            connection = Connection(self._command, self._call)
        except OSError as error:
            self._give_up(f"cannot start {self._command[0]!r}: {why_not_started(error)}")
            return
        self._connection = connection
        unread = [connection.output, connection.complaints]
        try:
            if self._call is None:
                self._start_thread(connection.tell, self._order.encode())
            self._start_thread(self._pass_messages, connection)
            unread.remove(connection.complaints)
            self._start_thread(self._read_output, connection)
            unread.remove(connection.output)
            self._start_thread(self._await_program, connection)
            # This one ends soon after the workers, and Python with it.
            self._start_thread(self._watch, connection, daemon=False)
        except ThreadError as error:
            connection.kill()
            connection.hang_up()
            connection.reap()
            for pipe in unread:
                pipe.close()
            self._give_up(str(error))
            self._concluded.set()
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

    def _start_thread(
        self, work: Callable[..., None], *arguments: Any, daemon: bool = True
    ) -> None:
        what = f"a thread for the connection to {self._hostname}"
        self._threads.append(start_thread(work, what, *arguments, daemon=daemon))

    def _give_up(self, reason: str) -> None:
        """Says why the workers do not run."""
        if self._call is not None:
            self._call.close()
        self._on_message(f"{reason}\n")
        for rank in self._order.workers:
            self._report(rank, CANNOT_START)

    def _report(self, rank: int, code: int, *, lost: bool = False) -> None:
        """Says that a worker has ended, once."""
        with self._changed:
            if rank in self._ended:
                return
            self._ended.add(rank)
            self._changed.notify_all()
        (self._on_lost if lost else self._on_exit)(rank, code)

    def _report_all(self) -> None:
        """Says of all workers whose end nobody has told that they are lost with the connection."""
        for rank in self._order.workers:
            self._report(rank, CONNECTION_FAILED, lost=True)

    def stop(self) -> None:
        """Has the agent end its workers; ends the connection if that takes too long.

        Where no agent has answered yet, that is at once.
        """
        self._unwanted.set()
        connection = self._connection
        if connection is None:
            return
        try:
            if self._greeted:
                connection.hang_up()
                if not self._concluded.wait(3 * TERMINATE_SECONDS):
                    self._on_message(f"the agent on {self._hostname} does not end; giving it up\n")
        finally:
            self.kill()

    def stop_one(self, rank: int) -> None:
        """Has the agent end a worker; ends the connection if that takes too long.

        The agent is told when it has greeted. Until then it is no sign of trouble that the worker
        has not ended, and the others of the host need the connection; without others it is ended.
        """
        connection = self._connection
        if connection is None:
            return
        given_up = self._patience + 2 * TERMINATE_SECONDS  # by _await_greeting, before that
        with self._changed:
            self._unwanted_ranks.add(rank)
            others = set(self._order.workers) - self._unwanted_ranks - self._ended
            if others:
                self._changed.wait_for(lambda: self._greeted or rank in self._ended, given_up)
            told = self._greeted
        if told:
            connection.tell(stop_one(rank))
            with self._changed:
                self._changed.wait_for(lambda: rank in self._ended, 3 * TERMINATE_SECONDS)
        if rank not in self._ended:
            if told or others:
                self._on_message(f"the agent on {self._hostname} does not answer; giving it up\n")
            self.kill()

    def kill(self) -> None:
        """Ends the connection at once; the agent over there ends its workers when it notices."""
        self._unwanted.set()
        if self._connection is None:
            return
        self._connection.kill()
        self._concluded.wait(TERMINATE_SECONDS)
        self._report_all()  # should a stranger hold its pipes still

    @property
    def gone(self) -> bool:
        """Whether the connection that `start` has made has ended, and all workers with it."""
        return self._connection is None or self._concluded.is_set()

    def _note(self, sign: _Sign) -> None:
        with self._changed:
            self._signs.add(sign)
            self._changed.notify_all()

    @property
    def _greeted(self) -> bool:
        return _Sign.GREETED in self._signs

    def _await_program(self, connection: Connection) -> None:
        connection.await_end()
        self._note(_Sign.PROGRAM_ENDED)

    def _watch(self, connection: Connection) -> None:
        """Reports all workers once their connection is of no use any more, and ends it."""
        try:
            self._await_greeting(connection)
            with self._changed:
                self._changed.wait_for(lambda: self._given_up or self._settled())
            self._conclude(connection)
        finally:
            try:
                self._report_all()
            finally:
                self._concluded.set()

    def _all_ended(self) -> bool:
        return self._ended.issuperset(self._order.workers)

    def _settled(self) -> bool:
        """Whether the connection is of no use any more, if perhaps not read to its end."""
        # That no complaints can come any more may be the doing of a login file.
        return self._all_ended() or bool(self._signs - {_Sign.GREETED, _Sign.HEARD})

    def _await_greeting(self, connection: Connection) -> None:
        """Ends a connection over which no agent answers: a program over there may hang."""
        with self._changed:
            answered = self._changed.wait_for(
                lambda: self._greeted or self._settled(), self._patience
            )
            if answered:
                return
            self._given_up = True
        ranks, program = self._order.workers, self._command[0]
        text = describe_silence(
            self._hostname, self._patience, ranks, program, started=self._started
        )
        self._on_message(f"{text}\n")
        connection.kill()

    def _conclude(self, connection: Connection) -> None:
        """Ends the connection, and reports the workers whose end nobody has told.

        What strangers hold open, as what a login script has started, is not waited for for long.
        """
        connection.hang_up()
        whole = self._await_rest(connection)
        with self._changed:
            by_itself = _Sign.PROGRAM_ENDED in self._signs
            told = by_itself and _Sign.READ in self._signs and not self._given_up
        if not whole:
            connection.kill()
        code = connection.reap()
        missing = [rank for rank in self._order.workers if rank not in self._ended]
        if missing and not self._given_up and not self._unwanted.is_set():
            text = (
                describe_end(self._hostname, code, missing, sys.executable, started=self._started)
                if by_itself
                else describe_lost_agent(self._hostname, missing)
            )
            self._on_message(f"{text}\n")
        for rank in missing:
            self._report(rank, (told and code) or CONNECTION_FAILED, lost=True)

    def _await_rest(self, connection: Connection) -> bool:
        """Waits for the rest of what comes, as long as it does, or is passed on meanwhile.

        Returns:
            Whether all has come.
        """

        def over() -> bool:
            needed = {_Sign.PROGRAM_ENDED}
            if not self._all_ended():
                needed |= {_Sign.READ, _Sign.HEARD}
            return needed <= self._signs

        before = -1
        while before != self._passed or self._passing or connection.has_more():
            before = self._passed
            with self._changed:
                if self._changed.wait_for(over, TERMINATE_SECONDS):
                    return True
        return False

    def _read_output(self, connection: Connection) -> None:
        try:
            with connection.output as pipe:
                if self._answer_call(connection):
                    self._pass_frames(pipe)
        except BaseException:
            connection.kill()
            raise
        finally:
            self._note(_Sign.READ)

    def _pass_frames(self, pipe: IO[bytes]) -> None:
        while (mark := skip_preamble(pipe, STARTED, GREETING)) == STARTED:
            self._started = True
        if not mark:
            return
        self._note(_Sign.GREETED)
        for kind, rank, payload in read_frames(pipe, self._pass_stray):
            self._passing = True  # who reads the output may pause
            if kind == EXIT:
                self._report(rank, read_exit(payload))
            else:
                self._on_output(rank, STREAMS[kind], payload)
            self._passed += 1
            self._passing = False

    def _pass_stray(self, text: bytes) -> None:
        words = text.decode(errors="replace").rstrip()
        self._on_message(f"{self._hostname}, from something beside the ranks: {words}\n")

    def _answer_call(self, connection: Connection) -> bool:
        """Gives an agent that calls its order; False when it does not call."""
        if self._call is None:
            return True
        if not skip_preamble(connection.output, KEY_MARK):
            return False
        self._started = True
        try:
            self._call.answer(connection.output, self._order.encode())
        except CallError as error:
            self._on_message(f"{self._hostname}: {error}\n")
            connection.kill()
            return False
        return True

    def _pass_messages(self, connection: Connection) -> None:
        try:
            with connection.complaints as pipe:
                for line in pipe:
                    words = line.removesuffix(GONE)
                    if words:
                        text = words.decode(errors="replace").rstrip()
                        self._on_message(f"{self._hostname}: {text}\n")
                    if words != line:
                        self._note(_Sign.AGENT_GONE)
        finally:
            self._note(_Sign.HEARD)
