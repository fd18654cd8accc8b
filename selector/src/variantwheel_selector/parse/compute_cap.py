"""Compute capabilities, as `nvidia-smi --query-gpu=compute_cap` prints them without a header."""

from __future__ import annotations

import re

ComputeCapability = tuple[int, int]
"""Major and minor."""

MOST_DEVICES = 64

_CAPABILITY_PATTERN = r"([1-9][0-9]?)\.([0-9])"


def compute_capability(text: str) -> ComputeCapability | None:
    """Read one compute capability such as `8.9`."""
    match = re.fullmatch(_CAPABILITY_PATTERN, text.strip(" "))
    return (int(match[1]), int(match[2])) if match else None


def parse_compute_cap(text: str) -> tuple[ComputeCapability, ...]:
    """Return the capability of every device, or nothing if any line is something else.

    A driver that does not match its kernel module makes nvidia-smi print an error message to
    standard output; drivers up to 470 do not know the field::

        8.0
        9.0
    """
    lines = [line for line in text.split("\n") if line.strip()]
    found = [compute_capability(line) for line in lines[: MOST_DEVICES + 1]]
    if len(found) > MOST_DEVICES:
        return ()
    known = tuple(item for item in found if item is not None)
    return known if len(known) == len(found) else ()
