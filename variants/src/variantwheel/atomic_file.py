"""Files that appear complete or not at all: written beside their target, then renamed."""

from __future__ import annotations

import os
import shutil
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
        beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
