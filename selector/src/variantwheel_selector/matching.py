"""PEP 825's comparison of what a variant needs with what a machine supports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from variantwheel_selector.model import Variant
from variantwheel_selector.providers.support import Support, SupportedFeature


@dataclass(frozen=True)
class PropertyVerdict:
    """How a variant's needs compare with what a machine supports.

    Attributes:
        fits: Whether every feature has a supported value; none if a fact needed is unknown.
        reasons: One line for each feature.
        sort_key: Lower is better; meaningful only if it fits.
    """

    fits: bool | None
    reasons: tuple[str, ...]
    sort_key: tuple[float, ...] = ()


def judge_properties(
    variant: Variant, namespaces: Sequence[str], support: Mapping[str, Support]
) -> PropertyVerdict:
    """Compare what a variant needs with what a machine supports.

    A variant fits if each of its features has a supported value; where devices differ, each of them
    may be served by another value. Its sort key joins, for its best
    value of each feature, the positions of namespace, feature and value, best first; where one
    variant's list continues another's, the longer one is better, and the null variant is last.

    Args:
        variant: What is needed.
        namespaces: Of the release, most important first; holds the variant's.
        support: What the machine supports, by namespace.
    """
    positions: list[tuple[int, int, int]] = []
    reasons: list[str] = []
    fits: bool | None = True
    for (namespace, feature_name), wanted in variant.features().items():
        answer = support.get(namespace, Support(namespace, absent="this selector has no provider"))
        order, feature = _find(answer, feature_name)
        matching = [value for value in feature.values if value in wanted] if feature else []
        need = f"needs {namespace} :: {feature_name} :: {' or '.join(wanted)}"
        jointly = feature is not None and feature.each_device and not feature.unserved(wanted)
        if feature is not None and (matching or jointly):
            # Values that serve the devices only together come after every single one for all.
            value = feature.values.index(matching[0]) if matching else len(feature.values)
            positions.append((namespaces.index(namespace), order, value))
            reasons.append(f"{need}: supported ({feature.basis})")
        elif unknown := answer.unknown or (feature.unknown if feature else ""):
            fits = None if fits is not False else False
            reasons.append(f"{need}: unknown ({unknown})")
        else:
            fits = False
            reasons.append(f"{need}: {_misfit(answer, feature, wanted)}")
    # Infinity ends the list, so that a list which continues another sorts before it.
    sort_key = (*(float(number) for triple in sorted(positions) for number in triple), math.inf)
    return PropertyVerdict(fits, tuple(reasons) or ("needs nothing",), sort_key)


def _find(answer: Support, name: str) -> tuple[int, SupportedFeature | None]:
    for position, feature in enumerate(answer.features):
        if feature.name == name:
            return position, feature
    return len(answer.features), None


def _misfit(answer: Support, feature: SupportedFeature | None, wanted: Sequence[str]) -> str:
    if feature is None:
        return answer.absent or "this machine has no such feature"
    explained = [feature.why_not[value] for value in wanted if value in feature.why_not]
    why = explained[0] if explained else feature.basis
    unserved = feature.unserved(wanted)
    if unserved:
        why = f"no code for {', '.join(unserved)}; {why}"
    return f"this machine supports {feature.words()} ({why})"
