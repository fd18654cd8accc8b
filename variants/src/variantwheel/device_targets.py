"""Names of GPU architectures, and the numbers that stand for them in device code.

Sources: LLVM, "User Guide for AMDGPU Backend" (`EF_AMDGPU_MACH`), and `llvm/BinaryFormat/ELF.h` for
both vendors' `e_flags`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_AMD_MACH = {
    0x02C: "gfx900",
    0x02D: "gfx902",
    0x02E: "gfx904",
    0x02F: "gfx906",
    0x030: "gfx908",
    0x031: "gfx909",
    0x032: "gfx90c",
    0x033: "gfx1010",
    0x034: "gfx1011",
    0x035: "gfx1012",
    0x036: "gfx1030",
    0x037: "gfx1031",
    0x038: "gfx1032",
    0x039: "gfx1033",
    0x03D: "gfx1035",
    0x03E: "gfx1034",
    0x03F: "gfx90a",
    0x040: "gfx940",
    0x041: "gfx1100",
    0x042: "gfx1013",
    0x043: "gfx1150",
    0x044: "gfx1103",
    0x045: "gfx1036",
    0x046: "gfx1101",
    0x047: "gfx1102",
    0x048: "gfx1200",
    0x04A: "gfx1151",
    0x04B: "gfx941",
    0x04C: "gfx942",
    0x04E: "gfx1201",
    0x04F: "gfx950",
    0x051: "gfx9_generic",
    0x052: "gfx10_1_generic",
    0x053: "gfx10_3_generic",
    0x054: "gfx11_generic",
    0x055: "gfx1152",
    0x058: "gfx1153",
    0x059: "gfx12_generic",
    0x05F: "gfx9_4_generic",
}

AMD_MACH: Mapping[int, str] = MappingProxyType(_AMD_MACH)
"""Targets by `e_flags & 0xff` of AMD's code objects."""

AMD_TARGETS: tuple[str, ...] = tuple(sorted(_AMD_MACH.values()))
"""All targets that this version knows, as variant properties spell them."""
