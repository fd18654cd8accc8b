"""Facts in `/proc/self/auxv`: what the kernel, or an emulator, tells a process about its CPU."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_ENTRIES = {16: "AT_HWCAP", 26: "AT_HWCAP2", 29: "AT_HWCAP3", 30: "AT_HWCAP4"}
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_HEXADECIMAL = frozenset("0123456789abcdef")

# Bits of CPUID.1:EDX by their names in /proc/cpuinfo. Linux hands this register to processes as
# AT_HWCAP (arch/x86/include/asm/elf.h), and so does QEMU for the CPU that it emulates.
_X86_NAMES = {
    0: "fpu",
    1: "vme",
    2: "de",
    3: "pse",
    4: "tsc",
    5: "msr",
    6: "pae",
    7: "mce",
    8: "cx8",
    9: "apic",
    11: "sep",
    12: "mtrr",
    13: "pge",
    14: "mca",
    15: "cmov",
    16: "pat",
    17: "pse36",
    19: "clflush",
    21: "dts",
    22: "acpi",
    23: "mmx",
    24: "fxsr",
    25: "sse",
    26: "sse2",
    27: "ss",
    28: "ht",
    29: "tm",
    31: "pbe",
}

# AT_HWCAP and AT_HWCAP2 on AArch64 by bit, in the names of the `Features` line (Linux
# arch/arm64/include/uapi/asm/hwcap.h and Documentation/arch/arm64/elf_hwcaps.rst).
_AARCH64_NAMES = {
    "AT_HWCAP": (
        "fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "atomics", "fphp",
        "asimdhp", "cpuid", "asimdrdm", "jscvt", "fcma", "lrcpc", "dcpop", "sha3", "sm3", "sm4",
        "asimddp", "sha512", "sve", "asimdfhm", "dit", "uscat", "ilrcpc", "flagm", "ssbs", "sb",
        "paca", "pacg",
    ),
    "AT_HWCAP2": (
        "dcpodp", "sve2", "sveaes", "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2",
        "frint", "svei8mm", "svef32mm", "svef64mm", "svebf16", "i8mm", "bf16", "dgh", "rng", "bti",
        "mte", "ecv", "afp", "rpres", "mte3", "sme", "smei16i64", "smef64f64", "smei8i32",
        "smef16f32", "smeb16f32", "smef32f32", "smefa64", "wfxt", "ebf16", "sveebf16", "cssc",
        "rprfm", "sve2p1", "sme2", "sme2p1", "smei16i32", "smebi32i32", "smeb16b16", "smef16f16",
        "mops", "hbc", "sveb16b16", "lrcpc3", "lse128", "fpmr", "lut", "faminmax",
    ),
}  # fmt: skip


def decode_auxv(data: bytes, pointer_bits: int) -> str:
    """Write the entries of a binary auxiliary vector that describe the CPU, one per line.

    Args:
        data: Pairs of native integers, type and value.
        pointer_bits: Width of these integers.
    """
    pair = "=QQ" if pointer_bits == 64 else "=II"
    usable = len(data) - len(data) % struct.calcsize(pair)
    found = dict(struct.iter_unpack(pair, data[:usable]))
    return "".join(
        f"{name} {found[number]:#x}\n" for number, name in _ENTRIES.items() if number in found
    )


def parse_auxv(text: str) -> dict[str, int]:
    """Return the values of an auxiliary vector in text form.

    The text looks like this; lines of any other form are passed over::

        AT_HWCAP 0x178bfbff
        AT_HWCAP2 0x2
    """
    found: dict[str, int] = {}
    for line in text.splitlines():
        # Without a regular expression, which would be compiled for these two lines alone.
        name, _, value = line.strip().partition(" 0x")
        known = name.startswith("AT_") and len(name) > 3 and _NAME.issuperset(name)
        if known and 1 <= len(value) <= 16 and _HEXADECIMAL.issuperset(value):
            found[name] = int(value, 16)
    return found


def x86_disagreement(flags: frozenset[str], hwcap: int) -> tuple[str, ...]:
    """Return the flags which only one of `/proc/cpuinfo` and AT_HWCAP has.

    There are none unless the process does not run on the CPU which the file describes, which is
    the case under user-mode emulation of x86 on x86.

    Args:
        flags: Of `/proc/cpuinfo`.
        hwcap: AT_HWCAP, which is CPUID.1:EDX of the CPU that executes this process.
    """
    executing = {name for bit, name in _X86_NAMES.items() if hwcap >> bit & 1}
    described = flags & set(_X86_NAMES.values())
    return tuple(sorted(executing ^ described))


def aarch64_features(entries: Mapping[str, int]) -> frozenset[str]:
    """Return the names of the `Features` line that AT_HWCAP and AT_HWCAP2 stand for."""
    return frozenset(
        name
        for entry, names in _AARCH64_NAMES.items()
        for bit, name in enumerate(names)
        if entries.get(entry, 0) >> bit & 1
    )
