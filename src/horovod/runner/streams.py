"""This process's own standard output and error, which may be closed, full or read by nobody."""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import IO, TextIO


class _Nowhere(io.BytesIO):
    """Takes bytes and keeps none of them."""

    def write(self, data: object, /) -> int:
        return len(memoryview(data))  # type: ignore[arg-type]


def bytes_of(*streams: TextIO | None) -> IO[bytes]:
    """The first stream that takes bytes; in notebooks `sys.stdout` does not."""
    for stream in streams:
        if (buffer := getattr(stream, "buffer", None)) is not None:
            taken: IO[bytes] = buffer
            return taken
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
