"""Providers: for each namespace, the properties that a machine supports, best first."""

from __future__ import annotations

from variantwheel_selector.assumptions import NOTHING_ASSUMED, Assumptions
from variantwheel_selector.machine import Machine
from variantwheel_selector.providers.level_cap import LevelCap
from variantwheel_selector.providers.no_gpu import absent_gpu
from variantwheel_selector.providers.support import Support, SupportedFeature
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo

__all__ = ["NAMESPACES", "LevelCap", "Support", "SupportedFeature", "release_support", "supported"]

NAMESPACES = ("nvidia", "amd", "x86_64", "aarch64")
"""Those that this selector has a provider for."""

DEFAULT_CAP = LevelCap()

_FAMILIES = {
    "x86_64": ("x86-64", ("x86_64", "amd64", "AMD64")),
    "aarch64": ("AArch64", ("aarch64", "arm64", "ARM64")),
}
"""By namespace of a CPU, its name in words and those that systems have for it."""


def supported(
    machine: Machine, *, cap: LevelCap = DEFAULT_CAP, assumptions: Assumptions = NOTHING_ASSUMED
) -> dict[str, Support]:
    """Return what a machine supports, by namespace.

    Args:
        machine: The captured facts.
        cap: CPU levels above it count as unsupported.
        assumptions: Facts that the user states instead.
    """
    return {
        namespace: _provided(namespace, machine, cap=cap, assumptions=assumptions)
        for namespace in NAMESPACES
    }


def release_support(
    info: VariantsInfo,
    machine: Machine,
    *,
    cap: LevelCap = DEFAULT_CAP,
    assumptions: Assumptions = NOTHING_ASSUMED,
) -> dict[str, Support]:
    """Return what a machine supports of the namespaces which a release uses.

    A release may bring the answer itself: with static properties the machine is not asked, and an
    optional namespace counts as unsupported (PEP 850).
    """
    answers: dict[str, Support] = {}
    for namespace in info.namespaces:
        provider = (info.providers or {}).get(namespace, ProviderInfo())
        if provider.optional:
            answers[namespace] = Support(namespace, absent="the release marks it as optional")
        elif provider.static_properties:
            answers[namespace] = _static(namespace, provider)
        elif provider.builtin is not None:
            answers[namespace] = Support(
                namespace, absent=f"provider {provider.builtin!r} is not available in this selector"
            )
        else:
            answers[namespace] = _provided(namespace, machine, cap=cap, assumptions=assumptions)
    return answers


# Each provider is imported when a release uses its namespace: most use few, and installation waits.
def _provided(
    namespace: str, machine: Machine, *, cap: LevelCap, assumptions: Assumptions
) -> Support:
    absent = _other_family(namespace, machine)
    if not absent and not assumptions.about_gpus(namespace):
        absent = absent_gpu(namespace, machine)
    if absent:
        return Support(namespace, absent=absent)
    if namespace == "nvidia":
        from variantwheel_selector.providers import nvidia  # noqa: PLC0415

        return nvidia.supported(machine, assumptions)
    if namespace == "amd":
        from variantwheel_selector.providers import amd  # noqa: PLC0415

        return amd.supported(machine, assumptions)
    if namespace == "x86_64":
        from variantwheel_selector.providers import x86_64  # noqa: PLC0415

        return x86_64.supported(machine, cap=cap, assumed=assumptions.cpu)
    if namespace == "aarch64":
        from variantwheel_selector.providers import aarch64  # noqa: PLC0415

        return aarch64.supported(machine, cap=cap, assumed=assumptions.cpu)
    return Support(namespace, absent="this selector has no provider for it")


def _other_family(namespace: str, machine: Machine) -> str:
    """Return why a machine with another kind of CPU supports nothing of a namespace."""
    words, names = _FAMILIES.get(namespace, ("", (machine.machine,)))
    return "" if machine.machine in names else f"this machine is {machine.machine}, not {words}"


def _static(namespace: str, provider: ProviderInfo) -> Support:
    order = provider.feature_order or tuple(provider.static_properties)
    return Support(
        namespace,
        tuple(
            SupportedFeature(feature, provider.static_properties[feature], "stated by the release")
            for feature in order
        ),
    )
