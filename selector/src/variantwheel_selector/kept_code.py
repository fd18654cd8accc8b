"""Compiled modules of a bundle, left by one hook for those that follow in the same unpacked sdist.

What Python does for files, in one file: to write it for each module takes longer than it saves.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any


def read_kept(path: str, bundle: str) -> dict[str, CodeType]:
    """Return the code that was left; none if it is of another Python or another bundle.

    Args:
        path: Where it was left, as trusted as the bundle beside it.
        bundle: The bundle's file.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes time
            found: Any = marshal.loads(file.read())  # noqa: S302 - as Python's own
        kept: dict[str, CodeType] = found[1] if found[0] == _state(bundle) else {}
    except (OSError, EOFError, ValueError, TypeError, LookupError):
        return {}
    return kept


def write_kept(path: str, bundle: str, code: dict[str, CodeType]) -> None:
    """Leave code; where that is not possible, those that follow compile anew."""
    beside = f"{path}.{os.getpid()}"
    try:
        content: Any = (_state(bundle), code)
        # Refused where another host that shares the folder writes under the same number.
        with open(beside, "xb") as file:  # noqa: PTH123 - pathlib takes time
            file.write(marshal.dumps(content))
        os.replace(beside, path)  # noqa: PTH105 - as above
    except OSError:
        pass


def _state(bundle: str) -> tuple[object, ...]:
    """Return what compiled code depends on; of the bundle what Python asks of its own files."""
    found = os.stat(bundle)  # noqa: PTH116 - pathlib takes time
    return (sys.version, sys.flags.optimize, found.st_size, found.st_mtime_ns)
