"""The program that connects with another host, as ssh, and what it has started."""

import contextlib
import select
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from horovod.runner.call_back import ExpectedCall
from horovod.runner.children import EndNotToldError, await_end
from horovod.runner.process_groups import TERMINATE_SECONDS, signal_group
from horovod.runner.processes import exit_code


class Connection:
    """Runs the program, which leads a group of processes; its standard input leads to the agent.

    Args:
        command: the program and its arguments.
        call: where the agent is told everything in place of standard input; None for there.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], call: ExpectedCall | None) -> None:
        self._call = call
        self._telling = threading.Lock()
        self._reaping = threading.Lock()  # until then the group's number is nobody else's
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if call is None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def output(self) -> IO[bytes]:
        """The agent's standard output."""
        return _pipe(self._process.stdout)

    def has_more(self) -> bool:
        """Whether there is output that nobody has read."""
        poll = select.poll()
        try:
            poll.register(self.output, select.POLLIN)
        except ValueError:  # it has been closed
            return False
        return any(event & select.POLLIN for _, event in poll.poll(0))

    @property
    def complaints(self) -> IO[bytes]:
        """What the program and the agent write to standard error."""
        return _pipe(self._process.stderr)

    def tell(self, line: bytes) -> None:
        """Sends the agent something; nothing where the connection has ended."""
        if self._call is not None:
            self._call.send(line)
            return
        if self._telling.acquire(timeout=TERMINATE_SECONDS):
            stdin = _pipe(self._process.stdin)
            try:
                if not stdin.closed:
                    stdin.write(line)
                    stdin.flush()
            except BrokenPipeError:
                pass  # the connection has ended already; its exit code says so
            finally:
                self._telling.release()

    def hang_up(self) -> None:
        """Says nothing more; the agent ends its workers then."""
        if self._call is not None:
            self._call.close()
            return
        if not self._telling.acquire(timeout=TERMINATE_SECONDS):
            self.kill()  # it has not even taken the order yet
            return
        try:
            _pipe(self._process.stdin).close()
        except BrokenPipeError:
            pass  # the connection has ended already
        finally:
            self._telling.release()

    def kill(self) -> None:
        """Ends the program, and what it has started, which may hold its pipes open."""
        if self._call is not None:
            self._call.close()
        with self._reaping:
            if self._process.returncode is None:
                signal_group(self._process.pid, signal.SIGKILL)

    def await_end(self) -> None:
        """Returns when the program has ended, whose group can be ended still."""
        with contextlib.suppress(EndNotToldError):
            await_end(self._process)

    def reap(self) -> int:
        """Waits for the program's end, after which nothing more of it is ended.

        Returns:
            Its exit code.
        """
        self.await_end()  # meanwhile it can be ended
        with self._reaping:
            return exit_code(self._process.wait())


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - Popen has made it
    return pipe
