"""A rank's place in a file without a name, for processes that have not inherited it.

A fork server keeps the environment of the time when it was started, and so do its children; their
rank may have come by its place later, or by another one, as in an elastic job.
"""

import os
from pathlib import Path

from horovod._parents import parent_of

_NAME = "horovod_place"
_LINK = f"/memfd:{_NAME} (deleted)"
_GENERATIONS = 8  # a fork server, the rank, and what has started servers in between


class PublishedPlace:
    """What this process has published, if anything."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def replace(self, text: str) -> None:
        """Has all that look from now on find this text; where files cannot be, nothing."""
        # Those who look meanwhile find the one before.
        before, self._descriptor = self._descriptor, _file_with(text.encode())
        if before is not None:
            os.close(before)

    def withdraw(self) -> None:
        """Takes back what has been published."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _file_with(text: bytes) -> int | None:
    """A descriptor; None where there is no room, and children have what they inherit."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create(_NAME)
    except OSError:
        return None
    try:
        os.write(descriptor, text)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def find_published(process: int) -> str | None:
    """What the nearest of the processes from which one descends has published.

    Args:
        process: id of the one to begin with.

    Returns:
        "" if none of them has; None if that cannot be known, as without Linux's `/proc`.
    """
    seen = False
    for _ in range(_GENERATIONS):
        try:
            texts = [
                link.read_text()
                for link in Path("/proc", str(process), "fd").iterdir()
                if _points_there(link)
            ]
            if texts:
                return texts[-1]
            process = parent_of(process)
        except (OSError, ValueError):  # another user's, or ended
            break
        seen = True
    return "" if seen else None


def _points_there(link: Path) -> bool:
    try:
        return str(link.readlink()) == _LINK
    except FileNotFoundError:  # closed meanwhile
        return False
