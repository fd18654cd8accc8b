"""Answers what the provider in uv answers, written from its documentation, for stated facts."""

import os
from dataclasses import dataclass


@dataclass
class Feature:
    name: str
    multi_value: bool
    values: list[str]


_VERSIONS = [f"{major}.{minor}" for major in (15, 14, 13, 12, 11) for minor in range(20, -1, -1)]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


class NvidiaVariantPlugin:
    @classmethod
    def get_all_configs(cls) -> list[Feature]:
        codes = [f"{cc}_{kind}" for cc in range(50, 130) for kind in ("real", "virtual")]
        return [
            Feature("cuda_version_lower_bound", multi_value=False, values=_VERSIONS),
            Feature("sm_arch", multi_value=True, values=codes),
        ]

    @classmethod
    def get_supported_configs(cls) -> list[Feature]:
        driver = os.environ.get("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION")
        capability = os.environ.get("NV_VARIANT_PROVIDER_FORCE_SM_ARCH")
        if not driver or not capability:
            return []
        bounds = [item for item in _VERSIONS if _number(item) <= _number(driver)]
        # As in uv, of several devices the best one counts.
        major, minor = max(_number(item) for item in capability.split(","))
        codes = [f"{major}{item}_real" for item in range(minor, -1, -1)] + [f"{major}0_virtual"]
        return [
            Feature("cuda_version_lower_bound", multi_value=False, values=bounds),
            Feature("sm_arch", multi_value=True, values=codes),
        ]
