"""Chooses among the variants of a release, and keeps the reason for every one not chosen.

Pure: the release, the supported properties and the accepted tags are all arguments.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from operator import itemgetter

from variantwheel_selector.decision import DecidedCandidate
from variantwheel_selector.matching import Judge, PropertyVerdict
from variantwheel_selector.model import VariantProperty, check_label
from variantwheel_selector.providers.support import Support
from variantwheel_selector.record import record
from variantwheel_selector.typing_forms import NamedTuple
from variantwheel_selector.variants_json import VariantsInfo
from variantwheel_selector.wheel_name import WheelName


class Candidate(NamedTuple):
    """One variant of a release as it was judged.

    Attributes:
        label: Its label; none for a plain wheel.
        properties: What it needs.
        filename: Its best wheel for this Python and platform; none if there is none.
        verdict: How its properties compare.
        compared: All facts compared, in words.
        ruled_out: Why the user's settings rule it out; empty if they do not.
    """

    label: str | None
    properties: tuple[VariantProperty, ...]
    filename: str | None
    verdict: PropertyVerdict
    compared: tuple[str, ...]
    ruled_out: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the properties and a wheel fit and no setting rules it out."""
        return self.verdict.fits is True and self.filename is not None and not self.ruled_out

    @property
    def undecided(self) -> bool:
        """Whether it would be judged if all facts were known."""
        return self.verdict.fits is None and self.filename is not None

    @property
    def obstacles(self) -> tuple[str, ...]:
        """What would have to change for it to be accepted, in words."""
        found = list(self.verdict.obstacles)
        if self.ruled_out:
            found.insert(0, f"the setting must go: {self.ruled_out}")
        if self.filename is None:
            found.append("a wheel for this Python and platform")
        return tuple(found)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was accepted or rejected, the decisive reason first."""
        return (self.ruled_out, *self.compared) if self.ruled_out else self.compared

    def decided(self) -> DecidedCandidate:
        """Return the candidate in the form of the decision file."""
        return DecidedCandidate(
            label=self.label,
            accepted=self.accepted,
            reasons=self.reasons,
            properties=tuple(map(str, self.properties)),
            filename=self.filename,
        )


@record
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
    refused: Mapping[str, str] | None = None,
) -> Resolution:
    """Judge and order the variants of a release.

    Args:
        info: What each label needs, and the order of the namespaces.
        filenames: The release's wheels; those without a label come last.
        support: What the machine supports, by namespace.
        tags: What the machine's Python accepts, best first.
        refused: Wheels that do not count although their tags fit, each with the reason.
    """
    wheels = _Wheels(tags, info.variants)
    by_label: dict[str | None, list[_Wheel]] = {}
    for filename in filenames:
        label, wheel = wheels.read(filename)
        found = by_label.get(label)
        if found is None:
            by_label[label] = [wheel]
        else:
            found.append(wheel)
    judge = Judge(info.namespaces, support)
    # Few places in the order are shared by many variants, whose labels decide then.
    places: dict[tuple[bool, tuple[float, ...]], list[Candidate]] = {}
    for label, found in by_label.items():
        variant = None if label is None else info.variants.get(label)
        verdict = _without_variant(label) if variant is None else judge.judge(variant)
        properties = () if variant is None else variant.properties
        item = _candidate(label, found, verdict, properties, refused or {})
        place = (verdict.fits is not True or item.filename is None, verdict.sort_key)
        same = places.get(place)
        if same is None:
            places[place] = [item]
        else:
            same.append(item)
    candidates: list[Candidate] = []
    for place in sorted(places):
        # At the place of a plain wheel, which has no label, there is nothing else.
        places[place].sort(key=itemgetter(0))
        candidates += places[place]
    winner = candidates[0] if candidates and candidates[0].accepted else None
    return Resolution(tuple(candidates), winner)


def _without_variant(label: str | None) -> PropertyVerdict:
    if label is None:
        # PEP 825: wheels that are no variants come after all variants, the null variant included.
        return PropertyVerdict(fits=True, reasons=("is no variant",), sort_key=(math.inf, math.inf))
    reason = f"label {label!r} is missing in the variants.json"
    return PropertyVerdict(fits=False, reasons=(reason,), sort_key=(math.inf,))


_MOST_NAMED = 12
_Wheel = tuple[str, float]
"""File name and the place of its best tag, infinite if none fits."""


class _Wheels:
    """Reads file names of wheels; most parts of a release's names are the same."""

    def __init__(self, tags: Sequence[str], labels: Container[str]) -> None:
        self._rank = {tag: position for position, tag in enumerate(tags)}
        self._labels = labels
        self._places: dict[str, float] = {}

    def read(self, filename: str) -> tuple[str | None, _Wheel]:
        """Return label and wheel.

        Raises:
            InvalidNameError: This is not the name of a wheel.
        """
        # What stands before the label is the same for many wheels, and is checked once.
        stem, _, last = filename.rpartition("-")
        place = self._places.get(stem)
        if place is not None and last.endswith(".whl"):
            label = last[:-4]
            if label not in self._labels:
                check_label(label)
            return label, (filename, place)
        name = WheelName.from_str(filename)
        place = min(self._rank.get(tag, math.inf) for tag in name.tags())
        if name.label is not None and not name.build:
            self._places[stem] = place
        return name.label, (filename, place)


def _candidate(
    label: str | None,
    wheels: Sequence[_Wheel],
    verdict: PropertyVerdict,
    properties: tuple[VariantProperty, ...],
    refused: Mapping[str, str],
) -> Candidate:
    if len(wheels) == 1 and wheels[0][1] != math.inf and not refused:
        return Candidate(label, properties, wheels[0][0], verdict, verdict.reasons)
    fitting = [wheel for wheel in wheels if wheel[1] != math.inf]
    allowed = [wheel for wheel in fitting if wheel[0] not in refused] if refused else fitting
    reasons = verdict.reasons
    if not fitting:
        end = None if label is None else -1
        names = [filename[:-4].split("-")[:end][-3:] for filename, _ in wheels[:_MOST_NAMED]]
        there_is = sorted({"-".join(name) for name in names})
        more = " and others" if len(wheels) > len(names) else ""
        words = f"no wheel for this Python and platform, only {', '.join(there_is)}{more}"
        reasons = (*reasons, words)
    elif not allowed:
        reasons = (*reasons, *sorted({refused[filename] for filename, _ in fitting}))
    return Candidate(
        label,
        properties,
        _best_wheel(allowed) if allowed else None,
        verdict,
        reasons,
    )


def _best_wheel(wheels: Sequence[_Wheel]) -> str:
    """Return the wheel with the best tag, and among equals the one with the highest build tag."""
    if len(wheels) == 1:
        return wheels[0][0]
    best = min(place for _, place in wheels)
    names = [filename for filename, place in wheels if place == best]
    if len(names) == 1:
        return names[0]
    return max(names, key=lambda filename: (WheelName.from_str(filename).build_key(), filename))
