"""Provider of the namespace `amd`: targets of the GPUs, and the version of ROCm.

A variant must serve every GPU that counts. Code for `gfx90a` runs on this very hardware alone, for
`gfx10_3_generic` on a family; see `amd_targets`. `rocm_version` is for wheels that open the ROCm
which is installed on the machine.
"""

from __future__ import annotations

from variantwheel_selector.assumptions import NOTHING_ASSUMED, Assumptions
from variantwheel_selector.fact import Fact, No, Unknown, Yes
from variantwheel_selector.machine import Machine
from variantwheel_selector.parse.rocm_version import RocmVersion
from variantwheel_selector.providers.amd_facts import amd_facts
from variantwheel_selector.providers.amd_targets import runnable_code
from variantwheel_selector.providers.support import Support, SupportedFeature

NAMESPACE = "amd"
GFX_ARCH, ROCM_VERSION = "gfx_arch", "rocm_version"


def supported(machine: Machine, assumptions: Assumptions = NOTHING_ASSUMED) -> Support:
    """Return what all AMD GPUs of a machine support, and the versions of ROCm."""
    facts = amd_facts(machine)
    gfx, rocm = facts.gfx, facts.rocm
    remarks = "".join(f"; {note}" for note in facts.notes)
    if assumptions.gfx is not None:
        origin = f"assumed by {assumptions.gfx.origin}"
        gfx = (
            No(f"none, {origin}")
            if assumptions.gfx.value is None
            else Yes(assumptions.gfx.value, origin)
        )
        remarks = ""
    if assumptions.rocm is not None:
        origin = f"assumed by {assumptions.rocm.origin}"
        rocm = (
            No(f"none, {origin}")
            if assumptions.rocm.value is None
            else Yes((assumptions.rocm.value,), origin)
        )
    if isinstance(gfx, No) and assumptions.rocm is None:
        # ROCm without a GPU, as in an image that is built elsewhere, is of no use by itself.
        return Support(NAMESPACE, absent=gfx.reason)
    if isinstance(gfx, Unknown) and not isinstance(rocm, Yes):
        return Support(NAMESPACE, unknown=gfx.reason)
    return Support(NAMESPACE, (_gfx_feature(gfx, remarks), _rocm_feature(rocm)))


def _gfx_feature(gfx: Fact[tuple[str, ...]], remarks: str) -> SupportedFeature:
    if not isinstance(gfx, Yes):
        unknown = gfx.reason if isinstance(gfx, Unknown) else ""
        return SupportedFeature(GFX_ARCH, (), gfx.reason, unknown=unknown)
    each = {target: runnable_code(target) for target in gfx.value}
    first, *others = each.values()
    return SupportedFeature(
        GFX_ARCH,
        tuple(value for value in first if all(value in other for other in others)),
        f"{gfx.source}{remarks}",
        summary=f"{'GPUs of ' if others else ''}{', '.join(each)}",
        each_device=each if others else {},
    )


def _rocm_feature(rocm: Fact[tuple[RocmVersion, ...]]) -> SupportedFeature:
    if not isinstance(rocm, Yes):
        unknown = rocm.reason if isinstance(rocm, Unknown) else ""
        return SupportedFeature(ROCM_VERSION, (), rocm.reason, unknown=unknown)
    values = tuple(f"{major}.{minor}" for major, minor in rocm.value)
    return SupportedFeature(ROCM_VERSION, values, rocm.source)
