"""Which ranks record a timeline, and into which file."""

from collections.abc import Mapping
from pathlib import PurePath

from horovod import _settings

DYNAMIC = "DYNAMIC"  # Horovod's value for a timeline that start_timeline() will begin


def file_of(path: str, rank: int, start: int = 0, first: int = 0) -> str:
    """The file for one rank: the path itself on rank 0, else with the rank in its name.

    Args:
        path: as the user gave it.
        rank: whose operations are recorded.
        start: how often the process has joined a job before: a later one does not overwrite the
            file of an earlier one.
        first: the launcher's number of rank 0, where some of its ranks form the job.
    """
    place = PurePath(path)
    added = (f".from{first}" if first else "") + (f".{start}" if start else "")
    added += f".rank{rank}" if rank else ""
    return str(place.with_name(place.stem + added + place.suffix)) if added else path


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
