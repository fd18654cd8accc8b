"""Files that appear complete or not at all: written beside their target, then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(target: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file, replacing an older one at once.

    Args:
        target: Its folder is made if it is missing.
        data: The content.
        mode: The permissions.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as output:
            output.write(data)
        beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
