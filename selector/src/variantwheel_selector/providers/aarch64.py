"""Provider of the namespace `aarch64`: versions 8a to 8.4a of the Armv8-A architecture.

The values are those of uv's provider. A version counts as supported when the kernel reports every
feature which the version made mandatory and which code compiled for it may use. Pointer
authentication is left out: kernels and hypervisors hide it although the instructions are harmless.
"""

from __future__ import annotations

from variantwheel_selector.assumptions import Assumed
from variantwheel_selector.machine import AUXV, CPUINFO, Machine
from variantwheel_selector.parse.auxv import aarch64_features, parse_auxv
from variantwheel_selector.parse.cpuinfo import cpu_flags
from variantwheel_selector.providers.support import Support, SupportedFeature

NAMESPACE = "aarch64"

VERSION_FEATURES = {
    "8a": ("asimd", "fp"),
    "8.1a": ("asimdrdm", "atomics", "crc32"),
    "8.2a": ("dcpop",),
    "8.3a": ("fcma", "jscvt", "lrcpc"),
    "8.4a": ("asimddp", "dit", "flagm", "ilrcpc", "uscat"),
}
"""What each version adds to the one before, in the names of the `Features` line."""


def supported(machine: Machine, *, assumed: Assumed[str] | None = None) -> Support:
    """Return the architecture versions that a machine supports, newest first.

    Args:
        machine: The captured facts.
        assumed: The newest version, if the user states it.
    """
    if machine.machine not in ("aarch64", "arm64", "ARM64"):
        return Support(NAMESPACE, absent=f"this machine is {machine.machine}, not AArch64")
    if machine.pointer_bits != 64:
        return Support(
            NAMESPACE, absent=f"this Python is a {machine.pointer_bits}-bit program, not AArch64"
        )
    if assumed is not None and assumed.value is None:
        return Support(NAMESPACE, absent=f"none, assumed by {assumed.origin}")
    if assumed is not None and assumed.value in VERSION_FEATURES:
        return _assumed(assumed.value, assumed.origin)
    hwcap = parse_auxv(machine.texts.get(AUXV, "")).get("AT_HWCAP")
    if hwcap is not None:
        features, basis = aarch64_features(hwcap), "AT_HWCAP"
    else:
        from_cpuinfo = cpu_flags(machine.texts.get(CPUINFO, ""))
        if from_cpuinfo is None:
            unknown = machine.unknown.get("auxv") or machine.unknown.get("cpu") or "no AT_HWCAP"
            feature = SupportedFeature("version", ("8a",), f"every AArch64 CPU; {unknown}")
            return Support(NAMESPACE, (feature,), unknown=unknown)
        features, basis = from_cpuinfo, "/proc/cpuinfo"
    versions: list[str] = []
    why_not: dict[str, str] = {}
    lacking: list[str] = []
    for version, needed in VERSION_FEATURES.items():
        lacking += [name for name in needed if name not in features]
        if lacking:
            why_not[version] = f"{basis} lacks {' '.join(lacking)}"
        else:
            versions.insert(0, version)
    if not versions:
        return Support(NAMESPACE, absent=why_not["8a"])
    return Support(NAMESPACE, (SupportedFeature("version", tuple(versions), basis, why_not),))


def _assumed(newest: str, origin: str) -> Support:
    known = list(VERSION_FEATURES)
    values = tuple(reversed(known[: known.index(newest) + 1]))
    basis = f"{newest}, assumed by {origin}"
    return Support(NAMESPACE, (SupportedFeature("version", values, basis),))
