"""Stands in for the package of this name, which is not published: stated facts alone."""

import os

from nvidia_variant_provider.plugin import Feature  # type: ignore[import-not-found]  # beside

TARGETS = ["gfx906", "gfx90a", "gfx942", "gfx1100"]
VERSIONS = ["7.0", "6.4", "6.3", "6.2"]


def get_all_configs() -> list[Feature]:
    return [
        Feature("gfx_arch", multi_value=True, values=TARGETS),
        Feature("rocm_version", multi_value=False, values=VERSIONS),
    ]


def get_supported_configs() -> list[Feature]:
    targets = os.environ.get("AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH")
    version = os.environ.get("AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION")
    if not targets or not version:
        return []
    return [
        Feature("gfx_arch", multi_value=True, values=targets.split(",")),
        Feature("rocm_version", multi_value=False, values=[version]),
    ]
