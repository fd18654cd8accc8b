"""Chooses among the variants of a release: PEP 825's matching and ordering, with every reason.

Pure: the release, the supported properties and the accepted tags are all arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from variantwheel_selector.decision import DecidedCandidate
from variantwheel_selector.errors import NothingFitsError, VariantMisfitError
from variantwheel_selector.model import Variant, VariantProperty
from variantwheel_selector.providers.support import Support, SupportedFeature
from variantwheel_selector.variants_json import VariantsInfo
from variantwheel_selector.wheel_name import WheelName

SortKey = tuple[float, ...]


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
    sort_key: SortKey = ()


@dataclass(frozen=True)
class Candidate:
    """One variant of a release as it was judged.

    Attributes:
        label: Its label; none for a plain wheel.
        properties: What it needs.
        filename: Its best wheel for this Python and platform; none if there is none.
        verdict: How its properties compare.
        reasons: All facts compared, in words.
    """

    label: str | None
    properties: tuple[VariantProperty, ...]
    filename: str | None
    verdict: PropertyVerdict
    reasons: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether both the properties and a wheel fit."""
        return self.verdict.fits is True and self.filename is not None

    def decided(self) -> DecidedCandidate:
        """Return the candidate in the form of the decision file."""
        return DecidedCandidate(
            self.label, self.accepted, self.reasons, tuple(map(str, self.properties))
        )


@dataclass(frozen=True)
class Resolution:
    """The candidates of a release for one machine.

    Attributes:
        candidates: Accepted ones first, best first; then the rejected ones.
        winner: The chosen one, or none.
        forced: Whether the winner was demanded even if it does not fit.
    """

    candidates: tuple[Candidate, ...]
    winner: Candidate | None
    forced: bool = False


def resolve(
    info: VariantsInfo,
    filenames: Iterable[str],
    support: Mapping[str, Support],
    tags: Sequence[str],
) -> Resolution:
    """Judge and order the variants of a release.

    Args:
        info: What each label needs, and the order of the namespaces.
        filenames: The release's wheels; those without a label come last.
        support: What the machine supports, by namespace.
        tags: What the machine's Python accepts, best first.
    """
    rank = {tag: position for position, tag in enumerate(tags)}
    by_label: dict[str | None, list[WheelName]] = {}
    for filename in filenames:
        name = WheelName.from_str(filename)
        by_label.setdefault(name.label, []).append(name)
    candidates = [
        _judge(
            info.variants.get(label) if label is not None else None,
            label,
            names,
            info,
            support,
            rank,
        )
        for label, names in by_label.items()
    ]
    candidates.sort(key=lambda item: (not item.accepted, item.verdict.sort_key, item.label or ""))
    winner = candidates[0] if candidates and candidates[0].accepted else None
    return Resolution(tuple(candidates), winner)


def choose(resolution: Resolution, label: str, *, forced: bool) -> Resolution:
    """Return the resolution with the winner that the user asked for.

    Args:
        resolution: All candidates.
        label: The label asked for.
        forced: Whether it is taken even if its properties do not fit.

    Raises:
        VariantMisfitError: There is no such variant, no wheel of it for this Python and platform,
            or it does not fit and `forced` is false.
    """
    found = next((item for item in resolution.candidates if item.label == label), None)
    if found is None:
        known = ", ".join(sorted(item.label for item in resolution.candidates if item.label))
        raise VariantMisfitError(f"there is no variant {label!r}; the release has {known}")
    if not found.accepted and (not forced or found.filename is None):
        reasons = "".join(f"\n  {reason}" for reason in found.reasons)
        advice = "" if found.filename is None else f"\n{label}! installs it nevertheless"
        raise VariantMisfitError(f"variant {label!r} does not fit this machine{reasons}{advice}")
    return replace(resolution, winner=found, forced=forced)


def nothing_fits(project: str, version: str, resolution: Resolution) -> NothingFitsError:
    """Return the error for a resolution without a winner."""
    lines = [f"no variant of {project} {version} fits this machine"]
    for item in resolution.candidates:
        lines += [f"  {item.label or 'plain wheel'}: {reason}" for reason in item.reasons]
    return NothingFitsError("\n".join(lines))


def judge_properties(
    variant: Variant, namespaces: Sequence[str], support: Mapping[str, Support]
) -> PropertyVerdict:
    """Compare what a variant needs with what a machine supports.

    A variant fits if each of its features has a supported value. Its sort key joins, for its best
    value of each feature, the positions of namespace, feature and value, best first; where one
    variant's list continues another's, the longer one is better, and the null variant is last.
    """
    keys: list[tuple[int, int, int]] = []
    reasons: list[str] = []
    fits: bool | None = True
    for (namespace, feature_name), wanted in variant.features().items():
        answer = support.get(namespace, Support(namespace, absent="this selector has no provider"))
        feature_index, feature = _find(answer, feature_name)
        matching = [value for value in feature.values if value in wanted] if feature else []
        need = f"{namespace} :: {feature_name} :: {' or '.join(wanted)}"
        if feature is not None and matching:
            keys.append(
                (namespaces.index(namespace), feature_index, feature.values.index(matching[0]))
            )
            reasons.append(f"needs {need}: supported ({feature.basis})")
        elif answer.unknown:
            fits = None if fits is not False else False
            reasons.append(f"needs {need}: unknown ({answer.unknown})")
        else:
            fits = False
            reasons.append(f"needs {need}: {_misfit(answer, feature, wanted)}")
    flat = [float(position) for key in sorted(keys) for position in key]
    # Infinity ends the list, so that a list which continues another sorts before it.
    sort_key = (*flat, math.inf)
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
    return f"this machine supports {', '.join(feature.values)} ({why})"


def _judge(
    variant: Variant | None,
    label: str | None,
    names: Sequence[WheelName],
    info: VariantsInfo,
    support: Mapping[str, Support],
    rank: Mapping[str, int],
) -> Candidate:
    if label is None:
        # PEP 825: wheels that are no variants come after all variants, the null variant included.
        verdict = PropertyVerdict(
            fits=True, reasons=("is no variant",), sort_key=(math.inf, math.inf)
        )
    elif variant is None:
        verdict = PropertyVerdict(
            fits=False, reasons=(f"label {label!r} is missing in the variants.json",)
        )
    else:
        verdict = judge_properties(variant, info.namespaces, support)
    best = _best_wheel(names, rank)
    reasons = verdict.reasons
    if best is None:
        there_is = ", ".join(sorted({f"{n.python}-{n.abi}-{n.platform}" for n in names}))
        reasons = (*reasons, f"no wheel for this Python and platform, only {there_is}")
    return Candidate(
        label, variant.properties if variant else (), str(best) if best else None, verdict, reasons
    )


def _best_wheel(names: Sequence[WheelName], rank: Mapping[str, int]) -> WheelName | None:
    """Return the wheel with the best tag, and among equals the one with the highest build tag."""
    fitting: list[tuple[int, WheelName]] = []
    for name in names:
        positions = [rank[tag] for tag in name.tags() if tag in rank]
        if positions:
            fitting.append((min(positions), name))
    if not fitting:
        return None
    best_position = min(position for position, _ in fitting)
    return max(
        (name for position, name in fitting if position == best_position),
        key=lambda name: (name.build_key(), str(name)),
    )
