"""Wheels kept by their hash in the user's cache folder; whatever is wrong with it, nothing fails.

The name of a file is its hash, so that whoever wrote it, it is either right or found out. Files are
written beside and renamed: processes that share a home see whole files alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path


class HashCache:
    """Files by their sha256, or no cache at all."""

    def __init__(self, folder: Path | None) -> None:
        """Use a folder that may not exist yet, or none."""
        self.folder = folder

    def path(self, sha256: str, filename: str) -> Path | None:
        """Return where a file stands or would stand."""
        return None if self.folder is None else self.folder / sha256[:2] / sha256 / filename

    def find(self, sha256: str, filename: str) -> Path | None:
        """Return a file that is there; its content has still to be checked."""
        path = self.path(sha256, filename)
        try:
            return path if path is not None and path.is_file() else None
        except OSError:
            return None

    def prepare(self, sha256: str, filename: str) -> Path | None:
        """Return where a file is to be written, or none if that is clearly impossible.

        Whether there is room for it shows when it is written.
        """
        path = self.path(sha256, filename)
        if path is None:
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        if path.is_dir():  # nothing can be renamed to it
            return None
        return path if os.access(path.parent, os.W_OK | os.X_OK) else None

    def drop(self, sha256: str, filename: str) -> None:
        """Remove a file that proved to be damaged."""
        path = self.path(sha256, filename)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Return this package's cache folder (XDG), or none where there is no home."""
    stated = environment.get("XDG_CACHE_HOME", "")
    if stated and Path(stated).is_absolute():  # XDG: relative paths do not count
        return Path(stated, "variantwheel", "sha256")
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    if not home or not Path(home).is_absolute():
        return None
    return Path(home, ".cache", "variantwheel", "sha256")
