"""This process's own standard output and error, which may be closed, full or read by nobody."""

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import IO, TextIO


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
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        drop_the_rest(stream)


def say(text: str) -> None:
    """Tells the user a line."""
    tell(text + "\n")
