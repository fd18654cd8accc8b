"""The agent that starts a host's workers: orders on standard input, frames on standard output.

The launcher runs it over ssh. The order is one line of JSON; a further line has one worker ended.
When the launcher closes the pipe, dies or loses the connection, the agent ends all its workers.
With an address of the launcher as its argument the agent calls there for its order (`call_back`).
"""

import contextlib
import functools
import json
import os
import queue
import select
import shlex
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from horovod._settings import HOSTNAME, LOCAL_SIZE
from horovod._standard_error import is_there, say
from horovod.runner.call_back import CallError, call, unseal
from horovod.runner.children import ends_are_told
from horovod.runner.core_shares import share_of_cores, usable_cores
from horovod.runner.import_paths import WITHOUT_CURRENT_FOLDER, absolute_paths
from horovod.runner.output import STREAMS
from horovod.runner.processes import CANNOT_START, Command, LocalWorkers
from horovod.runner.signals import signals_as_events
from horovod.runner.store_client import StoreError
from horovod.runner.threads import ThreadError, start_thread
from horovod.runner.witness import witnessed
from horovod.runner.workers import started_beside

STARTED = b"\nHOROVOD-AGENT-STARTED\n"  # before the order has come, on standard input
GREETING = b"\nHOROVOD-AGENT-2\n"  # what a login script prints before it is no business of ours
# In front of each frame, by which it is found after bytes that something else wrote there.
_MARK = b"\xff\xfeHVD\xf5\xc0\n"
_HEADER = struct.Struct(
    "<8sBiI"
)  # mark; kind: index in STREAMS, or EXIT; rank; number of bytes that follow
EXIT = len(STREAMS)
_EXIT_CODE = struct.Struct("<i")
_STOP_ONE = b"stop "  # what a line after the order begins with; the rank follows
_CHUNK = 1 << 16
_STANDARD_ERROR = 2
_LONGEST_PREAMBLE = 1 << 20  # bytes of login messages before the agent's greeting

# Exit codes; None: end all workers; an exception: they cannot be started.
_Events = queue.SimpleQueue[int | BaseException | None]


class NoOrderError(Exception):
    """No order has come, or the end of one."""


def agent_command(python: str, *arguments: str) -> str:
    """What another host's shell has to run to start the agent.

    It finds this package as this process does: by the same variables, which its workers get with
    all others later, and not in the folder where it is started, whose files may be named like
    modules.

    Args:
        python: path of the interpreter over there.
        arguments: the agent's.
    """
    run = f"{WITHOUT_CURRENT_FOLDER}; from horovod.runner.remote import main"
    paths = [f"{name}={value}" for name, value in absolute_paths(os.environ).items()]
    program = [python, "-c", f"{run}; sys.exit(main(*sys.argv[1:]))", *arguments]
    return shlex.join([*(("env", *paths) if paths else ()), *program])


@dataclass(frozen=True)
class Order:
    """What an agent has to do.

    Attributes:
        environment: what all workers get besides the host's own environment.
        workers: per rank, what it gets besides.
    """

    arguments: Sequence[str]
    directory: str
    environment: Mapping[str, str]
    workers: Mapping[int, Mapping[str, str]]

    def encode(self) -> bytes:
        """One line of JSON."""
        return json.dumps(vars(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Order":
        """Reads what `encode` wrote."""
        fields = json.loads(line)
        fields["workers"] = {int(rank): extra for rank, extra in fields["workers"].items()}
        return cls(**fields)

    def commands(self, host_environment: Mapping[str, str]) -> list[Command]:
        """The workers to start on a host, which is this one."""
        environments = {
            rank: {**host_environment, **self.environment, **extra}
            for rank, extra in self.workers.items()
        }
        cores = functools.cache(usable_cores)
        return [
            Command(
                rank=rank,
                arguments=self.arguments,
                environment={
                    **environment,
                    **share_of_cores(
                        environment, int(environment.get(LOCAL_SIZE.name, "1")), cores
                    ),
                },
                directory=Path(self.directory),
            )
            for rank, environment in environments.items()
        ]


def skip_preamble(pipe: IO[bytes], *marks: bytes) -> bytes:
    """Reads up to the agent's greeting, or another mark; b"" when none comes."""
    seen, longest = b"\n", max(map(len, marks))
    for _ in range(_LONGEST_PREAMBLE):
        byte = pipe.read(1)
        if not byte:
            return b""
        seen = (seen + byte)[-longest:]
        for mark in marks:
            if seen.endswith(mark):
                return mark
    return b""


def _follows(header: bytes) -> int | None:
    """How many bytes follow a header; None where it is none."""
    mark, kind, _, length = _HEADER.unpack(header)
    fits = length == _EXIT_CODE.size if kind == EXIT else kind < EXIT and length <= _CHUNK
    return int(length) if mark == _MARK and fits else None


def read_frames(
    pipe: IO[bytes], on_stray: Callable[[bytes], None] = lambda _text: None
) -> Iterator[tuple[int, int, bytes]]:
    """Reads kind, rank and payload of each frame, until the pipe ends.

    Args:
        pipe: the agent's standard output.
        on_stray: called with what something else wrote there, as what a login shell has started.
    """
    stray, header = bytearray(), b""
    while True:
        header += pipe.read(_HEADER.size - len(header))
        whole = len(header) == _HEADER.size
        length = _follows(header) if whole else None
        if stray and (length is not None or not whole or len(stray) > _CHUNK):
            on_stray(bytes(stray))
            stray.clear()
        if not whole:
            return
        if length is None:
            start = header.find(_MARK[:1], 1)
            stray += header if start < 0 else header[:start]
            header = b"" if start < 0 else header[start:]
            continue
        payload = pipe.read(length)
        if len(payload) < length:
            return
        _, kind, rank, _ = _HEADER.unpack(header)
        header = b""
        yield kind, rank, payload


def read_exit(payload: bytes) -> int:
    """The exit code that a frame tells."""
    return int(_EXIT_CODE.unpack(payload)[0])


class FrameWriter:
    """Writes frames from several threads to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._write(GREETING)

    def output(self, rank: int, stream: str, data: bytes) -> None:
        """Passes on what a worker wrote."""
        self._write(_HEADER.pack(_MARK, STREAMS.index(stream), rank, len(data)) + data)

    def exit(self, rank: int, code: int) -> None:
        """Says that a worker has ended."""
        payload = _EXIT_CODE.pack(code)
        self._write(_HEADER.pack(_MARK, EXIT, rank, len(payload)) + payload)

    def _write(self, data: bytes) -> None:
        with self._lock:
            view = memoryview(data)
            try:
                while view:
                    self._room.poll()
                    with contextlib.suppress(BlockingIOError):  # others have set it not to wait
                        view = view[os.write(self._descriptor, view) :]
            except OSError:
                return  # the launcher is gone; standard input says so too


def stop_one(rank: int) -> bytes:
    """The line that has an agent end one of its workers."""
    return b"%b%d\n" % (_STOP_ONE, rank)


def _read_lines(descriptor: int) -> Iterator[bytes]:
    """Reads whole lines until the pipe ends, or the connection is lost."""
    rest = bytearray()
    with contextlib.suppress(OSError):
        while chunk := os.read(descriptor, _CHUNK):
            rest += chunk
            if b"\n" in chunk:
                *lines, rest = rest.split(b"\n")
                yield from map(bytes, lines)


def _obey(lines: Iterator[bytes], workers: LocalWorkers, events: _Events) -> None:
    """Ends single workers until all are to be ended."""
    try:
        for line in lines:
            rank = int(line.removeprefix(_STOP_ONE))
            try:
                start_thread(workers.stop_one, "a thread that ends a worker", rank, daemon=True)
            except ThreadError:
                workers.stop_one(rank)
    finally:
        events.put(None)


def _where_workers_can_be(order: Order) -> Order:
    """The order, with this process's folder where the launcher's is not to be found here."""
    if os.access(order.directory, os.X_OK) and Path(order.directory).is_dir():
        return order
    here = Path.cwd()
    host = order.environment.get(HOSTNAME.name, "this host")
    say(f"there is no folder {order.directory} on {host}: its ranks run in {here}")
    return replace(order, directory=str(here))


def _read_order(lines: Iterator[bytes], opened: Callable[[bytes], bytes]) -> Order:
    line = next(lines, None)
    if line is None:
        raise NoOrderError
    try:
        return Order.decode(opened(line))
    except (ValueError, TypeError, KeyError) as error:
        raise NoOrderError from error


def run_agent(
    descriptor_in: int,
    descriptor_out: int,
    opened: Callable[[bytes], bytes] = bytes,
) -> int:
    """Starts the workers, and ends them when told to.

    Args:
        descriptor_in: where the order comes from.
        descriptor_out: where the frames go.
        opened: makes the order of the line that comes.

    Returns:
        The exit code of the worker that failed first; 0 when none did.

    Raises:
        NoOrderError: nothing says what workers to start.
    """
    lines = _read_lines(descriptor_in)
    order = _where_workers_can_be(_read_order(lines, opened))
    with witnessed():
        return _run_order(order, lines, FrameWriter(descriptor_out))


def _run_order(order: Order, lines: Iterator[bytes], frames: FrameWriter) -> int:
    events: _Events = queue.SimpleQueue()

    def on_exit(rank: int, code: int) -> None:
        try:
            frames.exit(rank, code)
        finally:
            events.put(code)

    workers = LocalWorkers(order.commands(os.environ), frames.output, on_exit)
    try:
        start_thread(_obey, "a thread of the agent", lines, workers, events, daemon=True)
        with signals_as_events(lambda _: events.put(None)):
            return _attend(workers, events, len(order.workers))
    except ThreadError as error:
        say(str(error))
        for rank in order.workers:
            frames.exit(rank, CANNOT_START)
        return CANNOT_START


def _attend(workers: LocalWorkers, events: _Events, count: int) -> int:
    """Runs the workers; returns the exit code of the one that failed first."""
    first_failure = 0
    with started_beside([workers], events.put):
        for _ in range(count):
            code = events.get()
            if isinstance(code, BaseException):
                raise code
            if code is None:
                workers.stop()
                break
            first_failure = first_failure or code
    return first_failure


def main(endpoints: str | None = None) -> int:
    """Gets the order and runs it.

    Args:
        endpoints: where the launcher awaits a call; None for an order on standard input.

    Returns:
        The exit code.
    """
    if not is_there():  # a login file has closed standard error
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_ERROR)
    # What anything in this process prints is no frame.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output, ends_are_told():
        os.dup2(_STANDARD_ERROR, sys.stdout.fileno())
        if endpoints is None:
            return _take_and_run(output)
        return _call_and_run(endpoints, output)


def _take_and_run(output: IO[bytes]) -> int:
    with contextlib.suppress(OSError):  # the launcher is gone
        os.write(output.fileno(), STARTED)
    try:
        return run_agent(sys.stdin.fileno(), output.fileno())
    except NoOrderError:
        say(
            "no order has come: something that a login runs here, as ~/.bashrc, has read the"
            " standard input that brings it, or ssh has been told to pass none on (-n, StdinNull)"
        )
        return CANNOT_START


def _call_and_run(endpoints: str, output: IO[bytes]) -> int:
    try:
        connection, key = call(endpoints, output)
        with connection:
            return run_agent(connection.fileno(), output.fileno(), lambda line: unseal(key, line))
    except NoOrderError:
        return 0  # the launcher has gone before it said what to do
    except (CallError, StoreError) as error:
        say(str(error))
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
