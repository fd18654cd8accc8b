"""The levels that `isa` and properties name: which of them promises more."""

from __future__ import annotations

import re
from collections.abc import Iterable

_X86_LEVEL = re.compile(r"v([1-4])")
_ARM_VERSION = re.compile(r"([89])(?:\.([0-9]))?a")


def isa_rank(isa: str) -> int:
    """Return a number that is higher for a level of the same family that asks for more.

    Armv9 extends the version of Armv8 with the same number and five more.

    >>> isa_rank("x86_64_v3") > isa_rank("x86_64_v2")
    True
    >>> isa_rank("armv9.0") == isa_rank("armv8.5") > isa_rank("armv8.4")
    True
    """
    if isa.startswith("x86_64_v"):
        return int(isa.removeprefix("x86_64_v"))
    major, minor = isa.removeprefix("armv").split(".")
    return int(minor) + (5 if major == "9" else 0)


def promised_isa(values: Iterable[str]) -> tuple[str, str] | None:
    """Return the value that the oldest CPU has, and the level that it stands for.

    Args:
        values: Of `x86_64 :: level` or `aarch64 :: version`, any of which a machine has to have;
            a project's own words promise nothing that is known here.

    >>> promised_isa(["v4", "v3"])
    ('v3', 'x86_64_v3')
    >>> promised_isa(["9a", "8.4a"])
    ('8.4a', 'armv8.4')
    """
    known = {value: isa for value in values if (isa := _isa_of(value))}
    return min(known.items(), key=lambda item: isa_rank(item[1]), default=None)


def _isa_of(value: str) -> str:
    if found := _X86_LEVEL.fullmatch(value):
        return f"x86_64_v{found[1]}"
    if found := _ARM_VERSION.fullmatch(value):
        return f"armv{found[1]}.{found[2] or 0}"
    return ""
