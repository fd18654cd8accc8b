"""The time that a release carries in its files, so that the same sources give the same bytes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from variantwheel.errors import ReleaseToolError

EARLIEST_EPOCH = 315532800
"""1980-01-01, the earliest date that a zip file, hence a wheel, can carry."""

_LATEST_EPOCH = 2**32 - 1
"""The latest time that gzip, hence an sdist, can carry."""

_GIT_DEADLINE = 20.0


def source_date_epoch(project: Path, environment: Mapping[str, str] | None = None) -> int:
    """Return the release's time in seconds since 1970.

    It is SOURCE_DATE_EPOCH if that is set, else the time of the last git commit, else 1980.

    Raises:
        ReleaseToolError: SOURCE_DATE_EPOCH is no number of seconds, or a time too late.
    """
    text = (os.environ if environment is None else environment).get("SOURCE_DATE_EPOCH")
    if text is None:
        return _last_commit_time(project) or EARLIEST_EPOCH
    if not text.isascii() or not text.isdigit():
        raise ReleaseToolError(
            f"SOURCE_DATE_EPOCH={text!r} is no number of seconds since 1970; set one or unset it"
        )
    # Their number first: Python makes none of thousands of digits.
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(_LATEST_EPOCH)) or int(digits) > _LATEST_EPOCH:
        raise ReleaseToolError(
            f"SOURCE_DATE_EPOCH={text!r} is later than {_LATEST_EPOCH}, in February 2106, beyond "
            "which an sdist carries no time; set an earlier one or unset it"
        )
    return int(digits)


def _last_commit_time(project: Path) -> int | None:
    command = ("git", "-C", str(project), "log", "-1", "--format=%ct")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_GIT_DEADLINE
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.strip()
    return int(text) if done.returncode == 0 and text.isdigit() else None
