"""Providers: for each namespace, the properties that a machine supports, best first."""

from __future__ import annotations

from variantwheel_selector.assumptions import NOTHING_ASSUMED, Assumptions
from variantwheel_selector.machine import Machine
from variantwheel_selector.providers import aarch64, amd, nvidia, x86_64
from variantwheel_selector.providers.support import Support, SupportedFeature
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo

__all__ = ["Support", "SupportedFeature", "release_support", "supported"]


def supported(
    machine: Machine, *, capped: bool = True, assumptions: Assumptions = NOTHING_ASSUMED
) -> dict[str, Support]:
    """Return what a machine supports, by namespace.

    Args:
        machine: The captured facts.
        capped: Whether CPU levels above the default cap count as unsupported.
        assumptions: Facts that the user states instead.
    """
    cpu = assumptions.cpu
    return {
        nvidia.NAMESPACE: nvidia.supported(machine, assumptions),
        amd.NAMESPACE: amd.supported(machine, assumptions),
        x86_64.NAMESPACE: x86_64.supported(machine, capped=capped, assumed=cpu),
        aarch64.NAMESPACE: aarch64.supported(machine, assumed=cpu),
    }


def release_support(
    info: VariantsInfo,
    machine: Machine,
    *,
    capped: bool = True,
    assumptions: Assumptions = NOTHING_ASSUMED,
) -> dict[str, Support]:
    """Return what a machine supports of the namespaces which a release uses.

    A release may bring the answer itself: with static properties the machine is not asked, and an
    optional namespace counts as unsupported (PEP 850).
    """
    known = supported(machine, capped=capped, assumptions=assumptions)
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
            answers[namespace] = known.get(
                namespace, Support(namespace, absent="this selector has no provider for it")
            )
    return answers


def _static(namespace: str, provider: ProviderInfo) -> Support:
    order = provider.feature_order or tuple(provider.static_properties)
    return Support(
        namespace,
        tuple(
            SupportedFeature(feature, provider.static_properties[feature], "stated by the release")
            for feature in order
        ),
    )
