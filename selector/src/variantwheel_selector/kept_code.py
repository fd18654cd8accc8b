"""Compiled modules of a bundle, left by one hook for those that follow in the same unpacked sdist.

What Python does for files, in one file: to write it for each module takes longer than it saves.
"""

from __future__ import annotations

import marshal
import os
import sys
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any


def read_kept(path: str, bundle: bytes) -> dict[str, CodeType]:
    """Return the code that was left; none if it is of another Python or another bundle.

    Args:
        path: Where it was left, as trusted as the bundle beside it.
        bundle: What the bundle holds.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes time
            found: Any = marshal.loads(file.read())  # noqa: S302 - as Python's own
        kept: dict[str, CodeType] = found[1] if found[0] == _state(bundle) else {}
    except (OSError, EOFError, ValueError, TypeError, LookupError):
        return {}
    return kept


def write_kept(path: str, bundle: bytes, mode: int, code: dict[str, CodeType]) -> None:
    """Leave code; where that is not possible, those that follow compile anew.

    Args:
        path: Where.
        bundle: What the bundle holds that it was compiled from.
        mode: Of the bundle's file: nobody else may write one, whatever the umask is now.
        code: By the modules' paths in the bundle.
    """
    beside = f"{path}.{os.getpid()}"
    content: Any = (_state(bundle), code)
    try:
        # Refused where another host that shares the folder writes under the same number.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o666)
    except OSError:
        return
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - pathlib takes time
            file.write(marshal.dumps(content))
        os.replace(beside, path)  # noqa: PTH105 - as above
    except OSError:
        os.unlink(beside)  # noqa: PTH108 - as above


def _state(bundle: bytes) -> tuple[object, ...]:
    """Return what compiled code depends on."""
    return (sys.version, sys.flags.optimize, len(bundle), crc32(bundle))
