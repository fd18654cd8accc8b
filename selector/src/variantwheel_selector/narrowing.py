"""Narrows and reorders what fits, as the user asked: require, forbid, only, prefer.

None of it makes a variant fit that does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from variantwheel_selector import setting_keys as keys
from variantwheel_selector.cpu_levels import X86_LEVELS
from variantwheel_selector.errors import SettingsError, StrictnessError
from variantwheel_selector.model import VariantProperty
from variantwheel_selector.record import replace
from variantwheel_selector.resolve import Candidate, Resolution
from variantwheel_selector.settings import Settings
from variantwheel_selector.suggestion import suggestion
from variantwheel_selector.variant_pattern import CPU, CPU_FEATURES, GPU, VariantPattern
from variantwheel_selector.variants_json import VariantsInfo
from variantwheel_selector.vocabulary import FEATURES, problem_of_value

PATTERN_KEYS = (keys.REQUIRE, keys.FORBID, keys.ONLY, keys.PREFER)

Patterns = tuple[VariantPattern, ...]


def check_patterns(settings: Settings, info: VariantsInfo) -> None:
    """Refuse patterns that mean nothing for a release.

    Raises:
        SettingsError: A pattern names no label, namespace, feature or value that there is.
    """
    for key in PATTERN_KEYS:
        for pattern in settings.get(key) or ():
            problem = _problem(pattern, info)
            if problem:
                raise SettingsError(f"{settings.origin(key)} holds {str(pattern)!r}: {problem}")


def level_asked_for(settings: Settings, info: VariantsInfo) -> bool:
    """Tell whether a pattern asks for a CPU level above the default cap.

    Labels ask for it, and patterns of the level itself; what a pattern says about GPUs does not,
    though a variant that it means may need such a level besides.
    """
    highest = X86_LEVELS[-1]
    for key in (keys.PREFER, keys.ONLY, keys.REQUIRE):
        for pattern in settings.get(key) or ():
            if pattern.word in (GPU, CPU) and pattern.feature is None:
                continue
            if pattern.word in FEATURES and pattern.value is None:
                continue
            for variant in info.variants.values():
                levels = [
                    item
                    for item in variant.properties
                    if item.namespace == "x86_64" and item.value == highest
                ]
                if levels and pattern.matches(variant.label, levels):
                    return True
    return False


def narrow(resolution: Resolution, settings: Settings) -> Resolution:
    """Apply `forbid`, `only` and `prefer`: what they rule out is rejected with that reason."""
    forbid, only, prefer = (settings.get(key) for key in (keys.FORBID, keys.ONLY, keys.PREFER))
    if not (forbid or only or prefer):
        return resolution
    judged: list[Candidate] = []
    for item in resolution.candidates:
        ruled_out = ""
        if by := _first_match(forbid or (), item):
            ruled_out = f"forbidden by {by}: {settings.origin(keys.FORBID)}"
        elif only and not _first_match(only, item):
            ruled_out = f"not among {_words(only)}: {settings.origin(keys.ONLY)}"
        judged.append(item._replace(ruled_out=ruled_out) if ruled_out else item)
    position = {id(item): number for number, item in enumerate(judged)}
    judged.sort(key=lambda item: (not item.accepted, _rank(prefer or (), item), position[id(item)]))
    winner = judged[0] if judged and judged[0].accepted else None
    return replace(resolution, candidates=tuple(judged), winner=winner)


def check_strictness(resolution: Resolution, settings: Settings) -> None:
    """Refuse a choice that the user does not want to be made.

    Raises:
        StrictnessError: The winner is not what `require` asks for, facts are unknown under
            `on-unknown=error`, or the winner is the last resort under `on-fallback=error`.
    """
    winner = resolution.winner
    required = settings.get(keys.REQUIRE) or ()
    if winner is not None:
        for pattern in required:
            if not pattern.matches(winner.label, winner.properties):
                raise StrictnessError(
                    f"{winner.label or 'a plain wheel'!r} would be chosen, which is not "
                    f"{str(pattern)!r}, as {settings.origin(keys.REQUIRE)} requires"
                    f"{_rejections(resolution, pattern)}"
                )
    if settings.choice(keys.ON_UNKNOWN) == "error":
        unknown = [item for item in resolution.candidates if item.undecided and not item.ruled_out]
        if unknown and not resolution.forced:
            raise StrictnessError(
                "facts are unknown, and on-unknown is 'error' "
                f"({settings.origin(keys.ON_UNKNOWN)})" + _reasons(unknown)
            )
    if settings.choice(keys.ON_FALLBACK) == "error" and not resolution.forced:
        better = [
            item
            for item in resolution.candidates
            if item.properties and item.filename is not None and not item.ruled_out
        ]
        if winner is not None and not winner.properties and better:
            raise StrictnessError(
                f"only {winner.label or 'a plain wheel'!r} fits, and on-fallback is 'error' "
                f"({settings.origin(keys.ON_FALLBACK)})" + _reasons(better)
            )


def _rejections(resolution: Resolution, pattern: VariantPattern) -> str:
    meant = [item for item in resolution.candidates if pattern.matches(item.label, item.properties)]
    return _reasons([item for item in meant if not item.accepted])


def _reasons(items: Sequence[Candidate]) -> str:
    return "".join(f"\n  {item.label}: {'; '.join(item.reasons)}" for item in items)


def _first_match(patterns: Patterns, item: Candidate) -> VariantPattern | None:
    return next((p for p in patterns if p.matches(item.label, item.properties)), None)


def _rank(patterns: Patterns, item: Candidate) -> int:
    for number, pattern in enumerate(patterns):
        if pattern.matches(item.label, item.properties):
            return number
    return len(patterns)


def _words(patterns: Patterns) -> str:
    return ", ".join(map(str, patterns))


def _problem(pattern: VariantPattern, info: VariantsInfo) -> str:
    """Return what is wrong with a pattern, or nothing."""
    if pattern.word == GPU:
        return ""
    if pattern.word == CPU:
        return "" if pattern.feature is None else _cpu_problem(pattern.feature)
    properties = [item for variant in info.variants.values() for item in variant.properties]
    namespaces = {*info.namespaces, *FEATURES}
    if pattern.feature is None:
        known = [GPU, CPU, *sorted(namespaces), *sorted(info.variants)]
        if pattern.word in known:
            return ""
        return f"known are {', '.join(known)}{suggestion(pattern.word, known)}"
    if pattern.word not in namespaces:
        known = sorted(namespaces)
        return f"known namespaces are {', '.join(known)}{suggestion(pattern.word, known)}"
    return _property_problem(pattern, properties)


def _cpu_problem(value: str) -> str:
    for namespace, feature in CPU_FEATURES.items():
        if not problem_of_value(namespace, feature, value):
            return ""
    return problem_of_value("x86_64", "level", value)


def _property_problem(pattern: VariantPattern, properties: Sequence[VariantProperty]) -> str:
    used = {item.feature for item in properties if item.namespace == pattern.word}
    features = sorted({*FEATURES.get(pattern.word, {}), *used})
    if pattern.feature is None or pattern.feature not in features:
        return (
            f"known features of {pattern.word} are {', '.join(features)}"
            f"{suggestion(pattern.feature or '', features)}"
        )
    values = {
        item.value
        for item in properties
        if (item.namespace, item.feature) == (pattern.word, pattern.feature)
    }
    if pattern.value is None or pattern.value in values or pattern.prefix:
        return ""
    if pattern.word in FEATURES:
        return problem_of_value(pattern.word, pattern.feature, pattern.value)
    known = sorted(values)
    return f"the release has {', '.join(known)}{suggestion(pattern.value, known)}"
