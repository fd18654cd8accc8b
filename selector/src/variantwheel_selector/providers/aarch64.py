"""Provider of the namespace `aarch64`: architecture versions, and single features.

The versions up to 8.4a are those of uv's provider; the newer ones are known here alone. A version
counts as supported when the kernel reports every feature which the version made mandatory and which
code compiled for it may use. Pointer authentication and branch targets are left out: kernels and
hypervisors hide them although the instructions are harmless. The features have the kernel's names
and the value `on`, as in the provider plug-in of that name.
"""

from __future__ import annotations

from variantwheel_selector.assumptions import Assumed
from variantwheel_selector.cpu_levels import ARM_FEATURES
from variantwheel_selector.machine import AUXV, CPUINFO, SYSCTL, Machine
from variantwheel_selector.parse.aarch64_hwcap import aarch64_features
from variantwheel_selector.parse.auxv import parse_auxv
from variantwheel_selector.parse.cpuinfo import cpu_flags
from variantwheel_selector.providers.level_cap import LevelCap
from variantwheel_selector.providers.support import Support, SupportedFeature

NAMESPACE = "aarch64"
DEFAULT_CAP = LevelCap()

VERSION_FEATURES = {
    "8a": ("asimd", "fp"),
    "8.1a": ("asimdrdm", "atomics", "crc32"),
    "8.2a": ("dcpop",),
    "8.3a": ("fcma", "jscvt", "lrcpc"),
    "8.4a": ("asimddp", "dit", "flagm", "ilrcpc", "uscat"),
    "8.5a": ("dcpodp", "flagm2", "frint", "sb"),
    "8.6a": ("bf16", "i8mm"),
    "8.7a": ("afp", "wfxt"),
}
"""What each version of Armv8 adds to the one before, in the names of the `Features` line."""

ARMV9 = {"9a": "8.5a", "9.1a": "8.6a", "9.2a": "8.7a"}
"""Versions of Armv9, each with the one of Armv8 that it extends by SVE2."""


def supported(
    machine: Machine, *, cap: LevelCap = DEFAULT_CAP, assumed: Assumed[str] | None = None
) -> Support:
    """Return the architecture versions that a machine supports, newest first, and features.

    Args:
        machine: The captured facts, of an AArch64 CPU.
        cap: Versions above it count as unsupported.
        assumed: The newest version, if the user states it.
    """
    if machine.pointer_bits != 64:
        return Support(
            NAMESPACE, absent=f"this Python is a {machine.pointer_bits}-bit program, not AArch64"
        )
    if assumed is not None and assumed.value is None:
        return Support(NAMESPACE, absent=f"none, assumed by {assumed.origin}")
    if assumed is not None and assumed.value is not None and assumed.value.endswith("a"):
        return _judge(_needed(assumed.value), f"{assumed.value}, assumed by {assumed.origin}", cap)
    entries = parse_auxv(machine.texts.get(AUXV, ""))
    if "AT_HWCAP" in entries:
        return _judge(aarch64_features(entries), "AT_HWCAP", cap)
    from_cpuinfo = cpu_flags(machine.texts.get(CPUINFO, ""), "Features")
    if from_cpuinfo is not None:
        return _judge(from_cpuinfo, "/proc/cpuinfo", cap)
    if SYSCTL in machine.texts:
        from variantwheel_selector.parse import sysctl  # noqa: PLC0415 - on macOS alone

        from_sysctl = sysctl.arm_features(sysctl.parse_sysctl(machine.texts[SYSCTL]))
        if from_sysctl is not None:
            return _judge(from_sysctl, "sysctl", cap)
    unknown = machine.unknown.get("auxv") or machine.unknown.get("cpu") or "no AT_HWCAP"
    feature = SupportedFeature("version", ("8a",), f"every AArch64 CPU; {unknown}")
    return Support(NAMESPACE, (feature,), unknown=unknown)


def _needed(version: str) -> frozenset[str]:
    """Return all features that a version consists of."""
    base = ARMV9.get(version, version)
    found: set[str] = {"sve", "sve2"} if version in ARMV9 else set()
    for name, added in VERSION_FEATURES.items():
        found.update(added)
        if name == base:
            break
    return frozenset(found)


def _judge(features: frozenset[str], basis: str, cap: LevelCap) -> Support:
    why_not: dict[str, str] = {}
    values: list[str] = []
    ranked = [*VERSION_FEATURES, *ARMV9]
    allowed = None if cap.aarch64 is None else _needed(cap.aarch64)
    for version in reversed(ranked):
        needed = _needed(version)
        lacking = sorted(needed - features)
        if lacking:
            why_not[version] = f"{basis} lacks {' '.join(lacking)}"
        elif allowed is not None and not needed <= allowed:
            why_not[version] = cap.reason(str(cap.aarch64))
        else:
            values.append(version)
    if not values:
        return Support(NAMESPACE, absent=why_not["8a"])
    single = (
        SupportedFeature(name, ("on",), basis)
        if name in features and (allowed is None or name in allowed)
        else SupportedFeature(name, (), _why_not_single(name, features, basis, cap))
        for name in ARM_FEATURES
    )
    return Support(NAMESPACE, (SupportedFeature("version", tuple(values), basis, why_not), *single))


def _why_not_single(name: str, features: frozenset[str], basis: str, cap: LevelCap) -> str:
    return cap.reason(str(cap.aarch64)) if name in features else f"{basis} lacks {name}"
