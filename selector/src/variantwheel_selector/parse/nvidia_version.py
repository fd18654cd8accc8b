"""Versions of NVIDIA's kernel driver, and the CUDA version that each brings by itself."""

from __future__ import annotations

import re

CudaVersion = tuple[int, int]
"""Major and minor."""

_DRIVER_PATTERN = r"(?:Kernel Module|aarch64|x86_64)\s+(\d{1,4}(?:\.\d{1,4}){1,3})(?!\S)"
_BARE_PATTERN = r"\d{1,4}(?:\.\d{1,4}){1,3}"
_CUDA_PATTERN = r"([1-9][0-9]?)(?:\.([0-9]{1,2}))?(?:\.[0-9]{1,4})?"

# NVIDIA, "CUDA Toolkit and Corresponding Driver Versions". A branch that is not listed brings at
# least what the one before it brings.
_CUDA_OF_BRANCH: dict[int, CudaVersion] = {
    450: (11, 0),
    455: (11, 1),
    460: (11, 2),
    465: (11, 3),
    470: (11, 4),
    495: (11, 5),
    510: (11, 6),
    515: (11, 7),
    520: (11, 8),
    525: (12, 0),
    530: (12, 1),
    535: (12, 2),
    545: (12, 3),
    550: (12, 4),
    555: (12, 5),
    560: (12, 6),
    565: (12, 7),
    570: (12, 8),
    575: (12, 9),
    580: (13, 0),
    590: (13, 1),
}


def parse_driver_version(text: str) -> str | None:
    """Return the driver's version from a line of `/proc/driver/nvidia/version` or a bare version.

    The shapes in the field::

        NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Thu Apr  3 01:14:19 UTC 2025
        NVRM version: NVIDIA UNIX aarch64 Kernel Module  550.120  Fri Sep 13 11:01:10 UTC 2024
        NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release Build  (...)
        NVRM version: NVIDIA UNIX Kernel Module for aarch64  34.1.1  Release Build
        580.65.06
    """
    line = text.partition("\n")[0].strip()[:256]
    if re.fullmatch(_BARE_PATTERN, line):
        return line
    match = re.search(_DRIVER_PATTERN, line)
    return match[1] if match else None


def cuda_of_driver(version: str) -> CudaVersion | None:
    """Return the CUDA version that a kernel driver brings, or none if it is too old or Tegra's.

    Args:
        version: Such as `580.65.06`.
    """
    branch = int(version.partition(".")[0])
    known = [number for number in _CUDA_OF_BRANCH if number <= branch]
    return _CUDA_OF_BRANCH[max(known)] if known else None


def cuda_version(text: str) -> CudaVersion | None:
    """Read a CUDA version such as `12.8`, `12` or `12.8.1`."""
    match = re.fullmatch(_CUDA_PATTERN, text)
    return (int(match[1]), int(match[2] or 0)) if match else None


def decode_cuda_version(number: int) -> CudaVersion | None:
    """Decode the integer of `cuDriverGetVersion`, 1000 * major + 10 * minor."""
    return (number // 1000, number % 1000 // 10) if 1000 <= number <= 99990 else None
