"""CPUID as glibc keeps it (2.33 and newer), for the CPU that really executes this process.

`__x86_get_cpuid_feature_leaf` returns for each leaf the registers of CPUID (`cpuid`) and the bits
that the operating system lets a process use as well (`active`): `<sys/platform/x86.h>`.
"""

from __future__ import annotations

import re

from variantwheel_selector.record import record

Registers = tuple[int, int, int, int]
"""EAX, EBX, ECX and EDX."""

LEAVES = {0: "1", 1: "7", 2: "0x80000001"}
"""glibc's index of a leaf to the leaf's number, as far as levels need them."""

_NUMBER = r"0x[0-9a-f]{1,8}"
_FOUR = " ".join([f"({_NUMBER})"] * 4)
_LINE_PATTERN = rf"leaf ([0-9]+): cpuid {_FOUR} / active {_FOUR}"

_EBX, _ECX, _EDX = 1, 2, 3

# Flags by their names in /proc/cpuinfo: leaf index, register, bit. glibc keeps no active bit for
# some of the first group in some versions, and none of them needs the system's help.
_CPUID_BITS = {
    "fpu": (0, _EDX, 0),
    "cx8": (0, _EDX, 8),
    "cmov": (0, _EDX, 15),
    "mmx": (0, _EDX, 23),
    "fxsr": (0, _EDX, 24),
    "sse": (0, _EDX, 25),
    "sse2": (0, _EDX, 26),
    "pni": (0, _ECX, 0),
    "ssse3": (0, _ECX, 9),
    "cx16": (0, _ECX, 13),
    "sse4_1": (0, _ECX, 19),
    "sse4_2": (0, _ECX, 20),
    "movbe": (0, _ECX, 22),
    "popcnt": (0, _ECX, 23),
    "xsave": (0, _ECX, 27),  # OSXSAVE: the kernel prints xsave when it has enabled it
    "bmi1": (1, _EBX, 3),
    "bmi2": (1, _EBX, 8),
    "lahf_lm": (2, _ECX, 0),
    "abm": (2, _ECX, 5),
}
_ACTIVE_BITS = {
    "fma": (0, _ECX, 12),
    "avx": (0, _ECX, 28),
    "f16c": (0, _ECX, 29),
    "avx2": (1, _EBX, 5),
    "avx512f": (1, _EBX, 16),
    "avx512dq": (1, _EBX, 17),
    "avx512cd": (1, _EBX, 28),
    "avx512bw": (1, _EBX, 30),
    "avx512vl": (1, _EBX, 31),
}


@record
class CpuidLeaf:
    """One leaf: what the CPU has, and what a process may use of it."""

    cpuid: Registers
    active: Registers


def format_leaf(index: int, leaf: CpuidLeaf) -> str:
    """Write one line of the text form."""
    cpuid = " ".join(f"{register:#x}" for register in leaf.cpuid)
    active = " ".join(f"{register:#x}" for register in leaf.active)
    return f"leaf {index}: cpuid {cpuid} / active {active}\n"


def parse_leaves(text: str) -> dict[int, CpuidLeaf]:
    """Return the leaves by glibc's index.

    The text looks like this; lines of any other form are passed over::

        leaf 0: cpuid 0x306c1 0x800 0xfed83203 0x78bfbfd / active 0x0 0x0 0x7ed83203 0x7888110
        leaf 1: cpuid 0x0 0x3a9 0x0 0x0 / active 0x0 0x328 0x0 0x0
        leaf 2: cpuid 0x306c1 0x0 0x21 0x28100800 / active 0x0 0x0 0x21 0x8000000
    """
    leaves: dict[int, CpuidLeaf] = {}
    for line in text.splitlines():
        match = re.fullmatch(_LINE_PATTERN, line.strip())
        if match:
            eax, ebx, ecx, edx, *active = (int(number, 16) for number in match.groups()[1:])
            leaves[int(match[1])] = CpuidLeaf(
                (eax, ebx, ecx, edx), (active[0], active[1], active[2], active[3])
            )
    return leaves


def leaf_flags(leaves: dict[int, CpuidLeaf]) -> frozenset[str] | None:
    """Return the flags that levels are made of, or none if a leaf is missing."""
    if not leaves.keys() >= LEAVES.keys():
        return None
    flags = {
        name
        for name, (index, register, bit) in _CPUID_BITS.items()
        if leaves[index].cpuid[register] >> bit & 1
    }
    flags |= {
        name
        for name, (index, register, bit) in _ACTIVE_BITS.items()
        if leaves[index].active[register] >> bit & 1
    }
    return frozenset(flags)
