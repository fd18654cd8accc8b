"""Suggests the known word that a misspelt one may have been meant for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that may have been meant, case and dashes set aside.

    Args:
        name: As it was spelt.
        known: What there is.
        cutoff: How alike they must be, from 0 to 1.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - nothing is misspelt in most runs

    spelt = {item.replace("_", "-").lower(): item for item in known}
    close = get_close_matches(name.replace("_", "-").lower(), list(spelt), n=1, cutoff=cutoff)
    return spelt[close[0]] if close else None


def near(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are spelt like one, or hold it, the likeliest first.

    Args:
        name: As it was spelt.
        known: What there is.
        most: How many are returned at most.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - as above

    known = list(known)
    close = get_close_matches(name, known, n=most)
    holding = [item for item in known if name in item.split("-") or item in name.split("-")]
    return list(dict.fromkeys([*close, *holding]))[:most]


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return the end of a sentence that suggests a known word, or nothing."""
    found = closest(name, known)
    return f" - did you mean {found!r}?" if found else ""
