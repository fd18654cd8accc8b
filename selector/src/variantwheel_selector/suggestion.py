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


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return the end of a sentence that suggests a known word, or nothing."""
    found = closest(name, known)
    return f" - did you mean {found!r}?" if found else ""
