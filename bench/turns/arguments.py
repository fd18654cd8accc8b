"""Sizes and numbers on the benchmarks' command lines and in their tables."""

from __future__ import annotations

import argparse

KIB, MIB = 1 << 10, 1 << 20
UNITS = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB}


def parse_sizes(text: str) -> list[int]:
    """Reads `4,1KiB,64MiB` as bytes.

    Raises:
        argparse.ArgumentTypeError: a part is no size.
    """
    sizes = []
    for part in text.split(","):
        number = part.strip().upper().rstrip("BKIM")
        unit = part.strip().upper()[len(number) :]
        if not number.isdigit() or unit not in UNITS or int(number) == 0:
            raise argparse.ArgumentTypeError(f"{part!r} is not a size such as 4, 16KiB or 64MiB")
        sizes.append(int(number) * UNITS[unit])
    return sizes


def positive(text: str) -> int:
    """Reads a whole number above 0.

    Raises:
        argparse.ArgumentTypeError: it is something else.
    """
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def size_name(nbytes: int) -> str:
    """The size in bytes as a table shows it: `16 KiB`."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if nbytes % unit == 0:
            return f"{nbytes // unit} {name}"
    return f"{nbytes} B"
