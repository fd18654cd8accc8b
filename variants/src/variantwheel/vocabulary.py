"""The properties that exist: for each namespace, the features and values that a machine may have.

What the selector's providers never answer can never be chosen, so that a definition that asks for
it is mistaken. A project adds words of its own in `[tool.variantwheel.vocabulary]`.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from variantwheel.device_targets import AMD_TARGETS
from variantwheel_selector.cpu_levels import ARM_FEATURES, ARM_VERSIONS
from variantwheel_selector.providers import aarch64, amd, nvidia, x86_64
from variantwheel_selector.providers.amd_targets import runnable_code, target_id

_NEWEST_CUDA = (20, 20)
_OLDEST_CUDA = (11, 0)
# Compute capabilities 5.0 (Maxwell) to 15.9; those that no device has do no harm.
_CAPABILITY_MAJORS = range(5, 16)
_HIGHEST_CAPABILITY_MINOR = 9

MACHINES_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {x86_64.NAMESPACE: ("x86_64",), aarch64.NAMESPACE: ("aarch64", "arm64")}
)
"""The namespaces that describe the CPU of some machines only."""


@dataclass(frozen=True)
class FeatureWords:
    """The values of one feature.

    Attributes:
        values: All of them; empty if every value is allowed.
        form: What they look like, in words.
    """

    values: tuple[str, ...]
    form: str = ""

    def problem(self, value: str) -> str:
        """Word what is wrong with a value; empty if it is one of these."""
        if not self.values or value in self.values:
            return ""
        close = difflib.get_close_matches(value, self.values, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        known = self.form or ", ".join(self.values)
        return f"no machine supports the value {value!r}; {guess}values are {known}"


@dataclass(frozen=True)
class Vocabulary:
    """Features by namespace.

    Attributes:
        features: For each namespace its features; a namespace that is absent is free.
    """

    features: Mapping[str, Mapping[str, FeatureWords]] = field(default_factory=dict)

    def extended(self, words: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Vocabulary:
        """Return this vocabulary with further values."""
        merged = {name: dict(features) for name, features in self.features.items()}
        for namespace, features in words.items():
            known = merged.setdefault(namespace, {})
            for feature, values in features.items():
                before = known.get(feature, FeatureWords(()))
                form = f"{before.form}, or {', '.join(values)}" if before.form else ""
                known[feature] = FeatureWords((*before.values, *values), form)
        return Vocabulary(merged)

    def feature_problem(self, namespace: str, feature: str) -> str:
        """Word what is wrong with a feature; empty if it exists or the namespace is free."""
        known = self.features.get(namespace)
        if known is None or feature in known:
            return ""
        return f"namespace {namespace!r} has no feature {feature!r}; {_meant(feature, known)}"

    def value_problem(self, namespace: str, feature: str, value: str) -> str:
        """Word what is wrong with a value; empty if it exists or is free."""
        words = self.features.get(namespace, {}).get(feature)
        return "" if words is None else words.problem(value)


def known_vocabulary() -> Vocabulary:
    """Return the words of the selector's own providers."""
    architectures = dict.fromkeys(
        value
        for major in _CAPABILITY_MAJORS
        for value in nvidia.architectures((major, _HIGHEST_CAPABILITY_MINOR))
    )
    return Vocabulary(
        {
            x86_64.NAMESPACE: {"level": FeatureWords(tuple(x86_64.LEVEL_FLAGS))},
            aarch64.NAMESPACE: {
                "version": FeatureWords(ARM_VERSIONS),
                **{name: FeatureWords(("on",)) for name in ARM_FEATURES},
            },
            nvidia.NAMESPACE: {
                nvidia.LOWER_BOUND: FeatureWords(
                    nvidia.lower_bounds(_NEWEST_CUDA), "CUDA versions from '11.0' on, as '12.4'"
                ),
                nvidia.UPPER_BOUND: FeatureWords(
                    nvidia.upper_bounds(_OLDEST_CUDA), "CUDA versions up to '15.20', as '13.0'"
                ),
                nvidia.SM_ARCH: FeatureWords(
                    tuple(architectures),
                    "'90_real' for machine code of compute capability 9.0, and '90_virtual' for "
                    "PTX, of which only a major version's first (80, 90, 100) is asked for",
                ),
            },
            amd.NAMESPACE: {
                amd.GFX_ARCH: FeatureWords(
                    _amd_targets(),
                    "targets such as 'gfx90a' and 'gfx1100', 'gfx90a_xnack_off' for code that "
                    "relies on a setting, and 'gfx10_3_generic' for a family",
                ),
                amd.ROCM_VERSION: FeatureWords(
                    tuple(f"{major}.{minor}" for major in range(4, 11) for minor in range(10)),
                    "ROCm versions such as '6.3'",
                ),
            },
        }
    )


def _amd_targets() -> tuple[str, ...]:
    """Return all targets, also with the settings that their code may rely on."""
    values = list(AMD_TARGETS)
    for processor in AMD_TARGETS:
        for sramecc, xnack in itertools.product((True, False), repeat=2):
            values += runnable_code(target_id(processor, sramecc=sramecc, xnack=xnack))
    return tuple(dict.fromkeys(values))


def _meant(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"
