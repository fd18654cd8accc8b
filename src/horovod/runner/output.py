"""The workers' output: each line with its rank in front, and whole copies in files."""

import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

STDOUT, STDERR = "stdout", "stderr"
STREAMS = (STDOUT, STDERR)
_LONGEST_LINE = 1 << 20  # bytes; what has no line end by then gets one


class OutputError(OSError):
    """The output's copies cannot be written."""


class LinePrefixer:
    """Cuts a stream of bytes into lines and puts a prefix before each.

    A carriage return ends a line too, so that progress bars are shown while they move.

    Args:
        prefix: put before each line.
        timestamp: put the time in front of that, in Horovod's form.
    """

    def __init__(self, prefix: str, *, timestamp: bool) -> None:
        self._prefix = prefix
        self._timestamp = timestamp
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes, of any length; returns the lines that are complete."""
        lines = (self._rest + data).splitlines(keepends=True) if data else []
        # bytes.splitlines knows \n, \r and \r\n; an \r at the end may be half of the last.
        if lines and not lines[-1].endswith(b"\n") and len(lines[-1]) < _LONGEST_LINE:
            self._rest = lines.pop()
        elif lines:
            self._rest = b""
        return b"".join(self._decorate(line) for line in lines)

    def close(self) -> bytes:
        """Returns what was left without a line end, with one."""
        rest, self._rest = self._rest, b""
        return self._decorate(rest) if rest else b""

    def _decorate(self, line: bytes) -> bytes:
        stamp = time.strftime("%a %b %d %H:%M:%S %Y") if self._timestamp else ""
        end = b"" if line.endswith((b"\n", b"\r")) else b"\n"
        return (stamp + self._prefix).encode() + line + end


class Output:
    """Where the workers' output goes.

    Args:
        size: number of ranks.
        terminal: the two streams of this process.
        directory: where to keep whole copies, `rank.<n>/stdout` and `/stderr`; None for nowhere.
        timestamp: put the time before each line on the terminal.

    Raises:
        OutputError: the folders or files cannot be made.
    """

    def __init__(
        self,
        size: int,
        terminal: Mapping[str, IO[bytes]],
        *,
        directory: Path | None,
        timestamp: bool,
    ) -> None:
        self._lock = threading.Lock()
        self._terminal = terminal
        self._prefixers = {
            (rank, stream): LinePrefixer(f"[{rank}]<{stream}>:", timestamp=timestamp)
            for rank in range(size)
            for stream in STREAMS
        }
        self._given_up: set[IO[bytes]] = set()
        self._files: dict[tuple[int, str], IO[bytes]] = {}
        if directory is not None:
            try:
                self._open_files(directory, size)
            except OSError as error:
                self.close()
                raise OutputError(f"cannot keep the output in {directory}: {error}") from None

    def _open_files(self, directory: Path, size: int) -> None:
        digits = len(str(size - 1))
        for rank in range(size):
            folder = directory / f"rank.{rank:0{digits}}"
            folder.mkdir(parents=True, exist_ok=True)
            for stream in STREAMS:
                self._files[rank, stream] = (folder / stream).open("wb")

    def write(self, rank: int, stream: str, data: bytes) -> None:
        """Takes bytes as a worker wrote them."""
        with self._lock:
            self._put(self._terminal[stream], stream, self._prefixers[rank, stream].feed(data))
            if (copy := self._files.get((rank, stream))) is not None:
                self._put(copy, copy.name, data)

    def finish(self, rank: int) -> None:
        """Shows what a worker that has ended left without a line end."""
        with self._lock:
            for stream in STREAMS:
                self._put(self._terminal[stream], stream, self._prefixers[rank, stream].close())

    def close(self) -> None:
        """Closes the files."""
        with self._lock:
            for copy in self._files.values():
                with contextlib.suppress(OSError):  # what it does not take has been said
                    copy.close()

    def _put(self, sink: IO[bytes], name: str, data: bytes) -> None:
        """Writes; a sink that takes no more is given up, and the job goes on."""
        if not data or sink in self._given_up:
            return
        try:
            sink.write(data)
            sink.flush()
        except BrokenPipeError:
            self._given_up.add(sink)  # whoever read our output has gone
        except OSError as error:
            self._given_up.add(sink)
            lost = f"horovodrun: no more output goes to {name}: {error.strerror}\n"
            self._put(self._terminal[STDERR], STDERR, lost.encode())
