"""The features of this selector's providers, and what their values look like."""

from __future__ import annotations

import re

from variantwheel_selector.cpu_levels import ARM_FEATURES, ARM_VERSIONS, X86_LEVELS
from variantwheel_selector.suggestion import suggestion

_CUDA_VERSION = r"[1-9][0-9]?(\.[0-9]{1,2})?"
_GFX_ARCH = (
    r"gfx([1-9][0-9]?[0-9a-f]{2}|[1-9][0-9]?(_[1-9])?_generic)"
    r"(_sramecc_(on|off))?(_xnack_(on|off))?"
)

FEATURES: dict[str, dict[str, str]] = {
    "nvidia": {
        "cuda_version_lower_bound": _CUDA_VERSION,
        "cuda_version_upper_bound": _CUDA_VERSION,
        "sm_arch": r"[1-9][0-9]{1,2}[af]?_(real|virtual)",
    },
    "amd": {"gfx_arch": _GFX_ARCH, "rocm_version": r"[1-9][0-9]?\.[0-9]{1,2}"},
    "x86_64": {"level": "|".join(X86_LEVELS)},
    "aarch64": {
        "version": "|".join(map(re.escape, ARM_VERSIONS)),
        **dict.fromkeys(ARM_FEATURES, "on"),
    },
}
"""By namespace and feature, the pattern of a value."""

_EXAMPLES = {
    "cuda_version_lower_bound": ("12.8", "12"),
    "cuda_version_upper_bound": ("13",),
    "sm_arch": ("90_real", "90_virtual"),
    "gfx_arch": ("gfx90a", "gfx942", "gfx90a_xnack_off", "gfx10_3_generic"),
    "rocm_version": ("6.3",),
    "level": X86_LEVELS,
    "version": ARM_VERSIONS,
}


def problem_of_value(namespace: str, feature: str, value: str) -> str:
    """Return what is wrong with a property's value, or nothing.

    Nothing is known about the values of other providers' namespaces.
    """
    features = FEATURES.get(namespace)
    if features is None:
        return ""
    if feature not in features:
        known = tuple(features)
        return f"{namespace} has the features {', '.join(known)}{suggestion(feature, known)}"
    if re.fullmatch(features[feature], value):
        return ""
    examples = _EXAMPLES.get(feature, ("on",))
    return (
        f"a value of {namespace} :: {feature} looks like {', '.join(examples)}"
        f"{suggestion(value, examples)}"
    )
