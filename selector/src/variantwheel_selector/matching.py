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
        sort_key: Lower is better. A value that is not supported counts as better than all that are,
            so that a misfit stands where it would stand if it fitted.
        obstacles: What would have to change for it to fit, one line for each feature in the way.
    """

    fits: bool | None
    reasons: tuple[str, ...]
    sort_key: tuple[float, ...] = ()
    obstacles: tuple[str, ...] = ()


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
    misfits: list[str] = []
    obstacles: list[str] = []
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
            continue
        positions.append((namespaces.index(namespace), order, -1))
        if unknown := answer.unknown or (feature.unknown if feature else ""):
            fits = None if fits is not False else False
            misfits.append(f"{need}: unknown ({unknown})")
            obstacles.append(f"it must become known: {unknown}")
        else:
            fits = False
            misfits.append(f"{need}: {_misfit(answer, feature, wanted)}")
            obstacles.append(_obstacle(namespace, feature_name, wanted, answer, feature))
    # Infinity ends the list, so that a list which continues another sorts before it.
    sort_key = (*(float(number) for triple in sorted(positions) for number in triple), math.inf)
    # What decides comes first.
    told = (*misfits, *reasons) or ("needs nothing",)
    return PropertyVerdict(fits, told, sort_key, tuple(obstacles))


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


def _obstacle(
    namespace: str,
    name: str,
    wanted: Sequence[str],
    answer: Support,
    feature: SupportedFeature | None,
) -> str:
    """Return what would have to change for one of the values to be supported."""
    if feature is None:
        return answer.absent or f"a machine with {namespace} :: {name}"
    capped = next((value for value in wanted if "capped" in feature.why_not.get(value, "")), None)
    if capped is not None:
        return f"ask for it: name the variant, or set max-cpu-level to {capped} or more"
    least = wanted[0] if len(wanted) == 1 else " or ".join(wanted)
    return {
        "cuda_version_lower_bound": f"an NVIDIA driver for CUDA {least} or newer",
        "cuda_version_upper_bound": f"an NVIDIA driver older than CUDA {least}",
        "sm_arch": f"devices that run {least}, or a release with code for these devices",
        "gfx_arch": f"a GPU of {least}, or a release with code for this one",
        "rocm_version": f"ROCm {least}",
        "level": f"a CPU of level {least}",
        "version": f"a CPU of Arm version {least}",
    }.get(name, f"a machine that supports {namespace} :: {name} :: {least}")
