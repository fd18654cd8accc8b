"""ROCm's version as `/opt/rocm*/.info/version` gives it."""

from __future__ import annotations

import re

RocmVersion = tuple[int, int]
"""Major and minor."""

_VERSION_PATTERN = r"([1-9][0-9]?)\.([0-9]{1,2})(?:[.-][0-9A-Za-z.~+-]{0,64})?"


def rocm_version(text: str) -> RocmVersion | None:
    """Read a version such as `6.3.0-39`, `6.3.0` or `6.3`."""
    match = re.fullmatch(_VERSION_PATTERN, text)
    return (int(match[1]), int(match[2])) if match else None
