"""Facts in `/proc/self/auxv`: what the kernel, or an emulator, tells a process about its CPU."""

from __future__ import annotations

import struct

_ENTRIES = {16: "AT_HWCAP", 26: "AT_HWCAP2", 29: "AT_HWCAP3", 30: "AT_HWCAP4"}
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_HEXADECIMAL = frozenset("0123456789abcdef")

# Bits of CPUID.1:EDX by their names in /proc/cpuinfo. Linux hands this register to processes as
# AT_HWCAP (arch/x86/include/asm/elf.h), and so does QEMU for the CPU that it emulates.
X86_HWCAP_BITS = {
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
    executing = {name for bit, name in X86_HWCAP_BITS.items() if hwcap >> bit & 1}
    described = flags & set(X86_HWCAP_BITS.values())
    return tuple(sorted(executing ^ described))
