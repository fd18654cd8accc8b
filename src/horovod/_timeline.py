"""Which ranks record a timeline, and into which file; and into which the autotuner's log goes."""

import os
from collections.abc import Mapping
from pathlib import PurePath

from horovod import _settings

DYNAMIC = "DYNAMIC"  # Horovod's value for a timeline that start_timeline() will begin


def path_of(place: "str | bytes | os.PathLike[str] | os.PathLike[bytes]") -> str:
    """A path as the user gave it, as text.

    Raises:
        TypeError: it is none.
        ValueError: it cannot be one.
    """
    path = os.fsdecode(place)
    if "\0" in path:
        raise ValueError(f"a timeline cannot be written to {path!r}: no path has a NUL in it")
    return path


def file_of(path: str, rank: int, start: int = 0, first: int = 0) -> str:
    """The file for one rank: the path itself on rank 0, else with the rank in its name.

    Args:
        path: as the user gave it.
        rank: whose operations are recorded.
        start: how often the process has joined a job before: a later one does not overwrite the
            file of an earlier one.
        first: the launcher's number of rank 0, where some of its ranks form the job; of a
            communicator, that in MPI's world.
    """
    place = PurePath(path)
    added = (f".from{first}" if first else "") + (f".{start}" if start else "")
    added += f".rank{rank}" if rank else ""
    if not added or not place.name:  # as of "/", which is no file's
        return path
    return str(place.with_name(place.stem + added + place.suffix))


def recorded_from_start(
    environment: Mapping[str, str], rank: int, start: int, first: int = 0
) -> str:
    """The file that this rank records to from `init()` on; "" for none.

    Args:
        environment: of the process.
        rank: see `file_of`, as for the others.
        start: likewise.
        first: likewise.

    Raises:
        SettingError: a variable's value is not accepted.
    """
    path = _settings.TIMELINE.read(environment)
    every_rank = _settings.TIMELINE_ALL_RANKS.read(environment)
    if path in ("", DYNAMIC) or (rank != 0 and not every_rank):
        return ""
    return file_of(path, rank, start, first)


def autotune_log(environment: Mapping[str, str], start: int, first: int = 0) -> str:
    """The file in which rank 0 keeps the autotuner's log; "" for none.

    Args:
        environment: of the process.
        start: see `file_of`: jobs at the same time, or one after the other, do not share a file.
        first: likewise.
    """
    path = _settings.AUTOTUNE_LOG.read(environment)
    return file_of(path, 0, start, first) if path else ""
