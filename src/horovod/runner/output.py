"""The workers' output: each line with its rank in front, and whole copies in files."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from horovod.runner.streams import drop_the_rest, write_all

STDOUT, STDERR = "stdout", "stderr"
STREAMS = (STDOUT, STDERR)
_LONGEST_LINE = 1 << 20  # bytes; what has no line end by then gets one


class OutputError(OSError):
    """The output's copies cannot be written."""


class LinePrefixer:
    """Cuts a stream of bytes into lines and puts a prefix before each.

    A carriage return ends a line too, so that progress bars are shown while they move.

    Args:
        prefix: put before each line; may change between lines.
        timestamp: put the time in front of that, in Horovod's form.
    """

    def __init__(self, prefix: str, *, timestamp: bool) -> None:
        self.prefix = prefix
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
        return (stamp + self.prefix).encode() + line + end


def _prefix(rank: int, stream: str) -> str:
    return f"[{rank}]<{stream}>:"


def _open_copies(folder: Path) -> dict[str, IO[bytes]]:
    """Opens a file per stream, and follows no link, which somebody else may have laid there.

    Raises:
        OSError: a file cannot be opened; or it, or the folder, is a link.
    """
    files: dict[str, IO[bytes]] = {}
    path = folder
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for stream in STREAMS:
                path = folder / stream
                files[stream] = _open_in(descriptor, path)
        finally:
            os.close(descriptor)
    except OSError:
        for file in files.values():
            file.close()
        if path.is_symlink():
            raise OSError(
                f"{path} is a symbolic link, and what it leads to may not be meant to be"
                " overwritten; remove it, or choose another folder"
            ) from None
        raise
    return files


def _open_in(folder: int, path: Path) -> IO[bytes]:
    def opener(name: str, flags: int) -> int:
        return os.open(Path(name).name, flags | os.O_NOFOLLOW, 0o666, dir_fd=folder)

    return open(path, "wb", opener=opener)


class Output:
    """Where the workers' output goes.

    Args:
        size: number of ranks.
        terminal: the two streams of this process.
        directory: where to keep whole copies, `rank.<n>/stdout` and `/stderr`, none of which may be
            a symbolic link; None for nowhere.
        timestamp: put the time before each line on the terminal.
        on_nobody_reads: called when whoever read our output has gone.

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
        on_nobody_reads: Callable[[], None] = lambda: None,
    ) -> None:
        self._lock = threading.Lock()
        self._terminal = terminal
        self._timestamp = timestamp
        self._directory = directory
        self._on_nobody_reads = on_nobody_reads
        self._digits = len(str(max(size - 1, 0)))
        self._ranks: dict[int, int] = {}
        self._prefixers: dict[tuple[int, str], LinePrefixer] = {}
        self._given_up: set[IO[bytes]] = set()
        self._files: dict[tuple[int, str], IO[bytes]] = {}
        try:
            for rank in range(size):
                self._open_files(rank)
        except OSError as error:
            self.close()
            raise OutputError(f"cannot keep the output in {directory}: {error}") from None

    def _open_files(self, rank: int) -> None:
        if self._directory is None or (rank, STDOUT) in self._files:
            return
        folder = self._directory / f"rank.{rank:0{self._digits}}"
        folder.mkdir(parents=True, exist_ok=True)
        for stream, file in _open_copies(folder).items():
            self._files[rank, stream] = file

    def assign(self, worker: int, rank: int) -> None:
        """From now on a worker's output is that of a rank; without this, its number is its rank.

        Raises:
            OutputError: the rank's files cannot be made.
        """
        with self._lock:
            self._ranks[worker] = rank
            for stream in STREAMS:
                self._prefixer(worker, stream).prefix = _prefix(rank, stream)
            try:
                self._open_files(rank)
            except OSError as error:
                raise OutputError(f"cannot keep the output in {self._directory}: {error}") from None

    def _prefixer(self, worker: int, stream: str) -> LinePrefixer:
        if (worker, stream) not in self._prefixers:
            prefix = _prefix(self._ranks.get(worker, worker), stream)
            self._prefixers[worker, stream] = LinePrefixer(prefix, timestamp=self._timestamp)
        return self._prefixers[worker, stream]

    def write(self, worker: int, stream: str, data: bytes) -> None:
        """Takes bytes as a worker wrote them."""
        with self._lock:
            prefixer = self._prefixer(worker, stream)
            self._put(self._terminal[stream], stream, prefixer.feed(data))
            copy = self._files.get((self._ranks.get(worker, worker), stream))
            if copy is not None:
                self._put(copy, copy.name, data)

    def finish(self, worker: int) -> None:
        """Shows what a worker that has ended left without a line end."""
        with self._lock:
            for stream in STREAMS:
                rest = self._prefixer(worker, stream).close()
                self._put(self._terminal[stream], stream, rest)
                del self._prefixers[worker, stream]

    def close(self) -> None:
        """Closes the files; what comes later is shown on the terminal alone."""
        with self._lock:
            for copy in self._files.values():
                with contextlib.suppress(OSError):  # what it does not take has been said
                    copy.close()
            self._files.clear()
            self._directory = None

    def _put(self, sink: IO[bytes], name: str, data: bytes) -> None:
        """Writes; a sink that takes no more is given up, and the job goes on."""
        if not data or sink in self._given_up:
            return
        try:
            write_all(sink, data)
        except BrokenPipeError:
            self._given_up.add(sink)
            drop_the_rest(sink)
            self._on_nobody_reads()
        except OSError as error:
            self._given_up.add(sink)
            if not isinstance(error, TimeoutError):  # of which nothing was held back
                drop_the_rest(sink)
            lost = f"horovodrun: no more output goes to {name}: {error.strerror}\n"
            self._put(self._terminal[STDERR], STDERR, lost.encode(errors="backslashreplace"))
