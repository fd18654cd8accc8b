"""This process's own standard output and error, which may be closed, full or read by nobody."""

import contextlib
import errno
import io
import os
import select
import stat
import sys
import time
from pathlib import Path
from typing import IO, TextIO

ENDING_SECONDS = 10.0  # for readers who pause to take what is left, once this process is to end
_LOOK_SECONDS = 0.5  # between looks whether it is
_PIECE = select.PIPE_BUF  # bytes that a pipe which has any room takes without waiting


class Readers:
    """How long is waited for those who read this process's output, as a pager that pauses.

    Attributes:
        deadline: until when, by the monotonic clock; None for as long as it takes.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None

    def take_time(self) -> None:
        """Nobody wants this process to end."""
        self.deadline = None

    def hurry(self, *, at_once: bool) -> None:
        """Somebody wants it to end, at once or soon."""
        now = time.monotonic()
        if at_once:
            self.deadline = now
        elif self.deadline is None:
            self.deadline = now + ENDING_SECONDS

    def await_room(self, descriptor: int) -> None:
        """Returns when a descriptor takes something, or will say why it does not.

        Raises:
            TimeoutError: it took nothing while there was time.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while not poll.poll(_LOOK_SECONDS * 1000):
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise TimeoutError(errno.ETIMEDOUT, "nobody reads it")


READERS = Readers()  # of standard output and error, of which a process has one each


def _descriptor(sink: IO[bytes] | TextIO) -> int | None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return sink.fileno()
    return None


def write_all(sink: IO[bytes], data: bytes) -> None:
    """Writes bytes, also where a descriptor takes a part of them only, or just now none.

    Raises:
        OSError: they cannot be written; `TimeoutError` when nobody reads, and time is up.
    """
    descriptor = _descriptor(sink)
    if descriptor is None:
        sink.write(data)
        sink.flush()
        return
    file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    view = memoryview(data)
    while view:
        READERS.await_room(descriptor)
        with contextlib.suppress(BlockingIOError):  # others write there, too
            sink.flush()  # what somebody else has written through it before
            view = view[os.write(descriptor, view if file else view[:_PIECE]) :]


class _Nowhere(io.BytesIO):
    """Takes bytes and keeps none of them."""

    def write(self, data: object, /) -> int:
        return len(memoryview(data))  # type: ignore[arg-type]


class _AsText(io.BytesIO):
    """Takes bytes for a stream that takes text alone; what is no UTF-8 is replaced."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, data: object, /) -> int:
        taken = bytes(memoryview(data))  # type: ignore[arg-type]
        try:
            self._stream.write(taken.decode(errors="replace"))
        except ValueError as error:  # it was closed, or has an encoding without these letters
            raise OSError(errno.EINVAL, str(error)) from None
        return len(taken)

    def flush(self) -> None:
        with contextlib.suppress(AttributeError, ValueError):  # a script's own, or as above
            self._stream.flush()


def bytes_of(*streams: TextIO | None) -> IO[bytes]:
    """The first stream that there is; in notebooks `sys.stdout` takes text alone.

    What a script has written to it so far comes first.
    """
    for stream in streams:
        if stream is None:
            continue
        # A script's own may have no more than `write`; of what fails the next write says.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
        buffer: IO[bytes] | None = getattr(stream, "buffer", None)
        return _AsText(stream) if buffer is None else buffer
    return _Nowhere()


def take_any_text() -> None:
    """Has standard output and error take what their encoding has no letters for (`LANG=C`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_the_rest(sink: IO[bytes] | TextIO) -> None:
    """Lets Python end quietly: it writes what a stream still holds, or ends with code 120."""
    with (
        contextlib.suppress(OSError, ValueError),  # a stream without a descriptor, or closed
        Path(os.devnull).open("wb", buffering=0) as nowhere,
    ):
        os.dup2(nowhere.fileno(), sink.fileno())


def tell(text: str) -> None:
    """Writes to standard error; where that takes no more, nothing more is said, and all goes on."""
    stream = sys.stderr
    if stream is None:  # it was closed when Python started
        return
    try:
        if (descriptor := _descriptor(stream)) is not None:
            READERS.await_room(descriptor)
        stream.write(text)
        stream.flush()
    except TimeoutError:
        return
    except (OSError, ValueError):
        drop_the_rest(stream)


def say(text: str) -> None:
    """Tells the user a line."""
    tell(text + "\n")
