"""Patterns of variants, with which users narrow what may be chosen: `gpu`, `nvidia`, `cpu::v4`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from variantwheel_selector.model import VariantProperty
from variantwheel_selector.record import record

GPU, CPU = "gpu", "cpu"
GPU_NAMESPACES = ("nvidia", "amd")
CPU_FEATURES = {"x86_64": "level", "aarch64": "version"}
"""By namespace, the feature whose value `cpu::VALUE` means."""

_WORD = r"[a-z0-9_.]+"
_PATTERN = rf"({_WORD})(?:\s*::\s*({_WORD})(?:\s*::\s*({_WORD})(\*)?)?)?"


@record
class VariantPattern:
    """A pattern, by which variants are named without knowing a release.

    Attributes:
        word: `gpu`, `cpu`, a label or a namespace.
        feature: A feature of that namespace, or with `cpu` a value; none stands for any.
        value: A value of that feature; none stands for any.
        prefix: Whether `value`, which ends with a dot then, begins the values that are meant; the
            part before the dot is meant as well.
    """

    word: str
    feature: str | None = None
    value: str | None = None
    prefix: bool = False

    def __str__(self) -> str:
        parts = [part for part in (self.word, self.feature, self.value) if part is not None]
        return "::".join(parts) + ("*" if self.prefix else "")

    def matches(self, label: str | None, properties: Sequence[VariantProperty]) -> bool:
        """Tell whether a variant is meant; one without properties runs on every CPU."""
        on_gpu = any(item.namespace in GPU_NAMESPACES for item in properties)
        if self.word == GPU:
            return on_gpu
        if self.word == CPU and self.feature is None:
            return not on_gpu
        if self.word == label and self.feature is None:
            return True
        return any(self._means(item) for item in properties)

    def _means(self, item: VariantProperty) -> bool:
        if self.word == CPU:
            return CPU_FEATURES.get(item.namespace) == item.feature and item.value == self.feature
        if item.namespace != self.word or self.feature not in (None, item.feature):
            return False
        if self.value is None:
            return True
        if self.prefix:
            return f"{item.value}.".startswith(self.value)
        return item.value == self.value


def read_patterns(text: str) -> tuple[VariantPattern, ...] | None:
    """Read patterns with commas between them; none if one of them is none.

    The forms are `gpu`, `cpu`, `cpu::v4`, a label, `nvidia`, `nvidia::sm_arch`,
    `nvidia::sm_arch::90_real` and `nvidia::cuda_version_lower_bound::12.*`.
    """
    found: list[VariantPattern] = []
    for part in text.split(","):
        match = re.fullmatch(_PATTERN, part.strip())
        if match is None or (match[4] and not match[3].endswith(".")):
            return None
        word, feature, value, star = match.groups()
        if (word == GPU and feature) or (word == CPU and value):
            return None
        found.append(VariantPattern(word, feature, value, bool(star)))
    return tuple(found)
