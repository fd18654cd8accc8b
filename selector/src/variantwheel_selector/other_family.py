"""Settings about CPUs of another family than the machine's, which therefore have no effect."""

from __future__ import annotations

from collections.abc import Sequence

from variantwheel_selector.cpu_levels import X86_LEVELS
from variantwheel_selector.setting_keys import ASSUME_CPU, MAX_CPU_LEVEL
from variantwheel_selector.settings import Settings

_X86, _ARM = ("x86_64", "amd64"), ("aarch64", "arm64")


def without_effect(settings: Settings, machines: Sequence[str]) -> dict[str, str]:
    """Return which settings name levels of other CPUs alone, and why that has no effect, in words.

    Args:
        settings: What the user asked for.
        machines: The architectures chosen for, such as `x86_64`.
    """
    assumed, most = settings.get(ASSUME_CPU), settings.get(MAX_CPU_LEVEL)
    stated = {
        ASSUME_CPU.name: () if assumed is None else (assumed,),
        MAX_CPU_LEVEL.name: most or (),
    }
    here = {machine.lower() for machine in machines}
    return {
        name: f"this machine is {' and '.join(sorted(here))}"
        for name, levels in stated.items()
        if levels and here.isdisjoint(name for level in levels for name in _family(level))
    }


def _family(level: str) -> tuple[str, ...]:
    return _X86 if level in X86_LEVELS else _ARM
