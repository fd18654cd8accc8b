"""Asks for the CPU's features in-process where `/proc` does not tell: glibc, and macOS' kernel."""

from __future__ import annotations

import sys

from variantwheel_selector.machine import SYSCTL
from variantwheel_selector.parse import sysctl
from variantwheel_selector.parse.glibc_cpuid import LEAVES, CpuidLeaf, format_leaf

_SYSCTL_LIMIT = 4 * 1024


def sysctl_values(unknown: dict[str, str]) -> dict[str, str]:
    """Ask macOS' kernel, in-process: `sysctlbyname` of libSystem."""
    import ctypes  # noqa: PLC0415 - not every Python has it

    try:
        by_name = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError) as error:
        unknown["cpu"] = f"sysctl cannot be asked: {error}"
        return {}
    lines: list[str] = []
    for name in sysctl.NAMES:
        size = ctypes.c_size_t(_SYSCTL_LIMIT)
        value = ctypes.create_string_buffer(_SYSCTL_LIMIT)
        if by_name(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            continue
        raw = value.raw[: size.value]
        text = raw.rstrip(b"\0").decode("latin-1")
        if len(raw) in (4, 8) and not name.startswith("machdep.cpu."):
            text = str(int.from_bytes(raw, sys.byteorder))
        lines.append(f"{name}: {' '.join(text.split())}\n")
    return {SYSCTL: "".join(lines)}


def glibc_cpuid() -> str:
    """Ask glibc for CPUID.

    Raises:
        ImportError: This Python has no ctypes.
        OSError: The running program's symbols cannot be looked up.
        AttributeError: The C library is not glibc 2.33 or newer.
        ValueError: glibc does not know one of the leaves.
    """
    import ctypes  # noqa: PLC0415 - as above

    class Leaf(ctypes.Structure):
        _fields_ = (("cpuid", ctypes.c_uint32 * 4), ("active", ctypes.c_uint32 * 4))

    get_leaf = getattr(ctypes.CDLL(None), "__x86_get_cpuid_feature_leaf")
    get_leaf.argtypes = [ctypes.c_uint]
    get_leaf.restype = ctypes.POINTER(Leaf)
    lines: list[str] = []
    for index in LEAVES:
        leaf = get_leaf(index).contents
        lines.append(format_leaf(index, CpuidLeaf(tuple(leaf.cpuid), tuple(leaf.active))))
    return "".join(lines)
