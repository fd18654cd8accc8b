"""Failures of the system, as a full disk, which are neither the user's mistake nor a defect."""

from __future__ import annotations

import errno

_REFUSALS = frozenset(
    number
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "ENOMEM", "EMFILE", "ENFILE")
    if (number := getattr(errno, name, None)) is not None
)
_FULL = ("ENOSPC", "EDQUOT", "EFBIG")


def is_refusal(error: BaseException) -> bool:
    """Tell whether the system refused to store or to read, whatever the file is."""
    if not isinstance(error, OSError):
        return False
    # So `tempfile` says that it can write nowhere.
    nowhere = error.errno == errno.ENOENT and "No usable temporary" in (error.strerror or "")
    return nowhere or error.errno in _REFUSALS


def refusal_words(error: OSError, temporary: str) -> str:
    """Return what failed and what to do, in one line.

    Args:
        error: With or without the name of the file.
        temporary: The folder of temporary files.
    """
    # Of a copy that fails, the second name is the one that is written.
    place = error.filename2 or error.filename
    full = errno.errorcode.get(error.errno or 0) in _FULL
    if place:
        return f"{place}: {error.strerror}{'; make room there' * full}"
    room = f"; make room where the output goes, or for temporary files in {temporary} (TMPDIR)"
    return f"cannot go on: {error.strerror}{room * full}"
