"""Files that appear complete or not at all: written beside their target, then renamed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def replace_file(target: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file, replacing an older one at once.

    Args:
        target: Its folder is made if it is missing.
        data: The content.
        mode: The permissions.
    """
    with _replacing(target, mode) as output:
        output.write(data)


def extend_file(file: Path, lines: str) -> None:
    """Add lines at the end of a user's file, at once; all else of it stays as it is.

    Args:
        file: Made if it is missing. Of a link, what it leads to is extended.
        lines: With line feeds, which become the file's own ends of lines.
    """
    target = file.resolve()
    if not target.exists():
        replace_file(target, lines.encode())
        return
    before = target.read_bytes()
    replace_file(target, extended(before, lines), stat.S_IMODE(target.stat().st_mode))


def extended(content: bytes, lines: str) -> bytes:
    """Return the content of a file with more lines at its end, ended as its first one is."""
    end = b"\r\n" if content.partition(b"\n")[0].endswith(b"\r") else b"\n"
    start = content if not content or content.endswith(b"\n") else content + end
    return start + lines.encode().replace(b"\n", end)


def replace_by_copy(target: Path, source: Path, mode: int = 0o644) -> None:
    """Copy a file, replacing an older one at once.

    Args:
        target: Its folder is made if it is missing.
        source: What is copied, piece by piece.
        mode: The permissions.
    """
    with _replacing(target, mode) as output, source.open("rb") as original:
        shutil.copyfileobj(original, output)


@contextmanager
def _replacing(target: Path, mode: int) -> Iterator[IO[bytes]]:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as output:
            yield output
            # Not by its path, where others who write into the folder may put a link.
            os.fchmod(output.fileno(), mode)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
