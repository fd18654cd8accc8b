"""What is done with a resolution in few installations: a label asked for, nothing that fits."""

from __future__ import annotations

from variantwheel_selector.errors import NothingFitsError, VariantMisfitError
from variantwheel_selector.record import replace
from variantwheel_selector.resolve import Candidate, Resolution


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


def better_candidates(resolution: Resolution) -> tuple[Candidate, ...]:
    """Return the rejected candidates that would come before the winner, the best first.

    Those without a wheel for this Python and platform are left out, unless nothing fits.
    """
    rejected = [
        item
        for item in resolution.candidates
        if not item.accepted and (item.filename is not None or resolution.winner is None)
    ]
    winner = resolution.winner
    return tuple(
        item
        for item in rejected
        if winner is None or item.verdict.sort_key < winner.verdict.sort_key
    )


def nothing_fits(project: str, version: str, resolution: Resolution) -> NothingFitsError:
    """Return the error for a resolution without a winner."""
    lines = [f"no variant of {project} {version} fits this machine"]
    for item in resolution.candidates:
        lines += [f"  {item.label or 'plain wheel'}: {reason}" for reason in item.reasons]
    return NothingFitsError("\n".join(lines))
