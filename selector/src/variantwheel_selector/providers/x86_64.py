"""Provider of the namespace `x86_64`: the psABI's micro-architecture levels v1 to v4.

A level needs every one of its flags. Names and vendors of CPUs do not matter. Automatic selection
is capped at v3: wheels are cached and shared between machines, and AVX-512 comes and goes with
firmware and costs clock rate on some CPUs.
"""

from __future__ import annotations

from variantwheel_selector.assumptions import Assumed
from variantwheel_selector.machine import AUXV, CPUINFO, GLIBC_CPUID, SYSCTL, Machine
from variantwheel_selector.parse.auxv import parse_auxv, x86_disagreement
from variantwheel_selector.parse.cpuinfo import cpu_flags
from variantwheel_selector.providers.level_cap import LevelCap
from variantwheel_selector.providers.support import Support, SupportedFeature

NAMESPACE = "x86_64"
DEFAULT_CAP = LevelCap()

# In the names of /proc/cpuinfo: pni is SSE3, abm is LZCNT, cx16 is CMPXCHG16B.
LEVEL_FLAGS = {
    "v1": ("cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"),
    "v2": ("cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"),
    "v3": ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
    "v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}
"""What each level adds to the one before (x86-64 psABI)."""


def supported(
    machine: Machine, *, cap: LevelCap = DEFAULT_CAP, assumed: Assumed[str] | None = None
) -> Support:
    """Return the levels that a machine supports, highest first.

    Args:
        machine: The captured facts, of an x86-64 CPU.
        cap: Levels above it count as unsupported.
        assumed: The highest level, if the user states it.
    """
    if machine.pointer_bits != 64:
        return Support(
            NAMESPACE, absent=f"this Python is a {machine.pointer_bits}-bit program, not x86-64"
        )
    if assumed is not None and assumed.value is None:
        return Support(NAMESPACE, absent=f"none, assumed by {assumed.origin}")
    if assumed is not None and assumed.value in LEVEL_FLAGS:
        flags: frozenset[str] | None = frozenset(
            flag for level, added in LEVEL_FLAGS.items() if level <= assumed.value for flag in added
        )
        basis, unknown = f"{assumed.value}, assumed by {assumed.origin}", ""
    else:
        flags, basis, unknown = _flags(machine)
    if flags is None:
        feature = SupportedFeature("level", ("v1",), f"every x86-64 CPU; {unknown}")
        return Support(NAMESPACE, (feature,), unknown=unknown)
    levels: list[str] = []
    why_not: dict[str, str] = {}
    lacking: list[str] = []
    for level, needed in LEVEL_FLAGS.items():
        lacking += [flag for flag in needed if flag not in flags]
        if lacking:
            why_not[level] = f"{basis} lacks {' '.join(lacking)}"
        elif cap.x86_64 is not None and level > cap.x86_64:
            why_not[level] = cap.reason(cap.x86_64)
        else:
            levels.insert(0, level)
    if not levels:
        return Support(NAMESPACE, absent=why_not["v1"])
    return Support(NAMESPACE, (SupportedFeature("level", tuple(levels), basis, why_not),))


def _flags(machine: Machine) -> tuple[frozenset[str] | None, str, str]:
    """Return the CPU's flags and where they come from, or none and why they are unknown."""
    if SYSCTL in machine.texts:
        return _flags_of_macos(machine.texts[SYSCTL])
    flags = cpu_flags(machine.texts.get(CPUINFO, ""))
    hwcap = parse_auxv(machine.texts.get(AUXV, "")).get("AT_HWCAP")
    differing = () if flags is None or hwcap is None else x86_disagreement(flags, hwcap)
    if flags is not None and not differing:
        return flags, "/proc/cpuinfo", ""
    from variantwheel_selector.parse.glibc_cpuid import (  # noqa: PLC0415 - rarely needed
        leaf_flags,
        parse_leaves,
    )

    from_glibc = leaf_flags(parse_leaves(machine.texts.get(GLIBC_CPUID, "")))
    if from_glibc is not None:
        return from_glibc, "CPUID as glibc read it", ""
    if flags is None:
        trouble = machine.unknown.get("cpuinfo", "/proc/cpuinfo lists no flags")
        trouble = machine.unknown.get("cpu", trouble)
    else:
        trouble = (
            "this process does not run on the CPU that /proc/cpuinfo describes "
            f"(AT_HWCAP differs in {' '.join(differing)})"
        )
    no_glibc = machine.unknown.get("glibc_cpuid", "glibc was not asked")
    return None, "", f"{trouble}; {no_glibc}"


def _flags_of_macos(text: str) -> tuple[frozenset[str] | None, str, str]:
    from variantwheel_selector.parse.sysctl import (  # noqa: PLC0415 - on macOS alone
        is_translated,
        parse_sysctl,
        x86_flags,
    )

    values = parse_sysctl(text)
    flags = x86_flags(values)
    if flags is None:
        return None, "", "sysctl lists no features"
    if is_translated(values):
        # Rosetta may execute AVX on some systems, but does not advertise it, and it is slow.
        low = {flag for level in ("v1", "v2") for flag in LEVEL_FLAGS[level]}
        return flags & low, "sysctl; this x86-64 Python runs under Rosetta on Apple silicon", ""
    return flags, "sysctl", ""
