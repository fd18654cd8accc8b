"""PEP 825's comparison of what a variant needs with what a machine supports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from variantwheel_selector.model import Variant
from variantwheel_selector.providers.support import Support, SupportedFeature
from variantwheel_selector.record import record
from variantwheel_selector.typing_forms import NamedTuple


class PropertyVerdict(NamedTuple):
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


class Judge:
    """Compares what variants need with what one machine supports.

    Variants of a release need much the same; each need is compared once.
    """

    def __init__(self, namespaces: Sequence[str], support: Mapping[str, Support]) -> None:
        """Take what stays the same for all variants.

        Args:
            namespaces: Of the release, most important first; holds the variants'.
            support: What the machine supports, by namespace.
        """
        self._namespaces = {name: float(place) for place, name in enumerate(namespaces)}
        self._support = support
        self._needs: dict[tuple[tuple[str, str], tuple[str, ...]], _NeedVerdict] = {}
        self._verdicts: dict[object, PropertyVerdict] = {}

    def judge(self, variant: Variant) -> PropertyVerdict:
        """Compare what a variant needs.

        A variant fits if each of its features has a supported value; where devices differ, each of
        them may be served by another value. Its sort key joins, for its best value of each feature,
        the positions of namespace, feature and value, best first; where one variant's list
        continues another's, the longer one is better, and the null variant is last.
        """
        verdict = self._verdicts.get(variant.needs)
        if verdict is None:
            verdict = self._verdicts[variant.needs] = self._judge_all(variant)
        return verdict

    def _judge_all(self, variant: Variant) -> PropertyVerdict:
        if not variant.needs:
            return _NULL_VERDICT
        found: list[_NeedVerdict] = []
        fits: bool | None = True
        for need in variant.needs:
            verdict = self._needs.get(need)
            if verdict is None:
                verdict = self._needs[need] = self._judge_need(*need)
            if verdict.fits is not True and fits is not False:
                fits = verdict.fits
            found.append(verdict)
        if len(found) > 1:
            found.sort(key=_position)
        # Infinity ends the list, so that a list which continues another sorts before it.
        numbers: list[float] = []
        for verdict in found:
            numbers += verdict.position
        numbers.append(math.inf)
        if fits:
            return PropertyVerdict(fits, tuple([v.reason for v in found]), tuple(numbers))
        # What decides comes first.
        misfits = [verdict for verdict in found if not verdict.fits]
        told = [*misfits, *[verdict for verdict in found if verdict.fits]]
        return PropertyVerdict(
            fits,
            tuple([verdict.reason for verdict in told]),
            tuple(numbers),
            tuple([verdict.obstacle for verdict in misfits]),
        )

    def _judge_need(self, key: tuple[str, str], wanted: tuple[str, ...]) -> _NeedVerdict:
        namespace, name = key
        answer = self._support.get(
            namespace, Support(namespace, absent="this selector has no provider")
        )
        order, feature = _find(answer, name)
        matching = [value for value in feature.values if value in wanted] if feature else []
        need = f"needs {namespace} :: {name} :: {' or '.join(wanted)}"
        jointly = feature is not None and feature.each_device and not feature.unserved(wanted)
        place = (self._namespaces[namespace], float(order))
        if feature is not None and (matching or jointly):
            # Values that serve the devices only together come after every single one for all.
            value = feature.values.index(matching[0]) if matching else len(feature.values)
            reason = f"{need}: supported ({feature.basis})"
            return _NeedVerdict((*place, float(value)), fits=True, reason=reason)
        unknown = answer.unknown or (feature.unknown if feature else "")
        if unknown:
            reason, obstacle = f"{need}: unknown ({unknown})", f"it must become known: {unknown}"
            return _NeedVerdict((*place, -1.0), None, reason, obstacle)
        reason = f"{need}: {_misfit(answer, feature, wanted)}"
        obstacle = _obstacle(namespace, name, wanted, answer, feature)
        return _NeedVerdict((*place, -1.0), fits=False, reason=reason, obstacle=obstacle)


@record
class _NeedVerdict:
    """How one feature that a variant needs compares.

    Attributes:
        position: Of namespace, feature and the best value; -1 for a value that is not supported.
        fits: Whether a value is supported; none if that is unknown.
        reason: The facts compared, in words.
        obstacle: What would have to change for it to fit.
    """

    position: tuple[float, float, float]
    fits: bool | None
    reason: str
    obstacle: str = ""


_NULL_VERDICT = PropertyVerdict(fits=True, reasons=("needs nothing",), sort_key=(math.inf,))


def _position(verdict: _NeedVerdict) -> tuple[float, float, float]:
    return verdict.position


def judge_properties(
    variant: Variant, namespaces: Sequence[str], support: Mapping[str, Support]
) -> PropertyVerdict:
    """Compare what one variant needs with what a machine supports."""
    return Judge(namespaces, support).judge(variant)


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
