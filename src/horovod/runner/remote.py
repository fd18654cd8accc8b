"""The agent that starts a host's workers: orders on standard input, frames on standard output.

The launcher runs it over ssh. The order is one line of JSON; what follows it is silence until the
launcher closes the pipe, dies or loses the connection, whereupon the agent ends its workers.
"""

import json
import os
import queue
import signal
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from horovod.runner.output import STREAMS
from horovod.runner.processes import CANNOT_START, Command, LocalWorkers
from horovod.runner.threads import ThreadError, start_thread

GREETING = b"\nHOROVOD-AGENT-1\n"  # what a login script prints before it is no business of ours
_HEADER = struct.Struct(
    "<BiI"
)  # kind: index in STREAMS, or EXIT; rank; number of bytes that follow
EXIT = len(STREAMS)
_CHUNK = 1 << 16


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
        """The workers to start on a host."""
        return [
            Command(
                rank=rank,
                arguments=self.arguments,
                environment={**host_environment, **self.environment, **extra},
                directory=Path(self.directory),
            )
            for rank, extra in self.workers.items()
        ]


def read_frames(pipe: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Reads kind, rank and payload of each frame, until the pipe ends."""
    while len(header := pipe.read(_HEADER.size)) == _HEADER.size:
        kind, rank, length = _HEADER.unpack(header)
        payload = pipe.read(length)
        if len(payload) < length:
            return
        yield kind, rank, payload


class FrameWriter:
    """Writes frames from several threads to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._write(GREETING)

    def output(self, rank: int, stream: str, data: bytes) -> None:
        """Passes on what a worker wrote."""
        self._write(_HEADER.pack(STREAMS.index(stream), rank, len(data)) + data)

    def exit(self, rank: int, code: int) -> None:
        """Says that a worker has ended."""
        payload = struct.pack("<i", code)
        self._write(_HEADER.pack(EXIT, rank, len(payload)) + payload)

    def _write(self, data: bytes) -> None:
        with self._lock:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError:
                return  # the launcher is gone; standard input says so too


def _read_order(descriptor: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        line += chunk
    return bytes(line)


def _wait_for_end(descriptor: int, events: "queue.SimpleQueue[int | None]") -> None:
    while os.read(descriptor, _CHUNK):
        pass
    events.put(None)


def run_agent(descriptor_in: int, descriptor_out: int) -> int:
    """Starts the workers, and ends them when told to.

    Returns:
        The exit code of the worker that failed first; 0 when none did.
    """
    line = _read_order(descriptor_in)
    if not line.endswith(b"\n"):
        return 0  # the launcher has gone before it said what to do
    order = Order.decode(line)
    frames = FrameWriter(descriptor_out)
    events: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def on_exit(rank: int, code: int) -> None:
        frames.exit(rank, code)
        events.put(code)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: events.put(None))
    workers = LocalWorkers(order.commands(os.environ), frames.output, on_exit)
    try:
        start_thread(_wait_for_end, "a thread of the agent", descriptor_in, events, daemon=True)
    except ThreadError as error:
        sys.stderr.write(f"{error}\n")
        for rank in order.workers:
            frames.exit(rank, CANNOT_START)
        return CANNOT_START
    workers.start()
    first_failure = 0
    ended = 0
    while ended < len(order.workers):
        code = events.get()
        if code is None:
            workers.stop()
            break
        ended += 1
        first_failure = first_failure or code
    return first_failure


if __name__ == "__main__":
    sys.exit(run_agent(sys.stdin.fileno(), sys.stdout.fileno()))
