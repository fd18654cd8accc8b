"""Hashes that an index's page states of a file (PEP 503, PEP 691): read, judged and compared."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_ALGORITHMS = frozenset(
    name for name in hashlib.algorithms_guaranteed if not name.startswith("shake")
)
"""What every Python has; shake's digests are of no fixed length."""
_NO_HASHES = ("egg", "subdirectory")
"""What else stands in fragments."""
_DIGEST_PATTERN = r"[0-9a-fA-F]{32,}"

Hashes = tuple[tuple[str, str], ...]
"""Algorithms and digests in hexadecimal."""


def fragment_hashes(fragment: str) -> Hashes:
    """Return the hashes in the fragment of a link, as they are stated."""
    found: list[tuple[str, str]] = []
    for part in fragment.split("&"):
        name, _, value = part.partition("=")
        if name.lower() in _ALGORITHMS or (
            name not in _NO_HASHES and re.fullmatch(_DIGEST_PATTERN, value)
        ):
            found.append((name, value))
    return tuple(found)


def judged_hashes(stated: Iterable[tuple[str, str]]) -> tuple[Hashes, str]:
    """Judge what a page states of one file.

    Returns:
        The hashes to compare it with, in lower case, and why the file must not be taken: a hash is
        malformed, or there are hashes and none of a kind that is known here. Else the empty string.
    """
    usable: list[tuple[str, str]] = []
    unknown: list[str] = []
    for name, digest in stated:
        algorithm = name.lower()
        if algorithm not in _ALGORITHMS:
            unknown.append(name)
        elif not re.fullmatch(f"[0-9a-f]{{{_digits(algorithm)}}}", digest.lower()):
            return (), f"the page states {digest!r} as its {algorithm}, which cannot be one"
        else:
            usable.append((algorithm, digest.lower()))
    if unknown and not usable:
        known = ", ".join(sorted(_ALGORITHMS))
        return (), f"the page states no hash of it but {unknown[0]!r}; known here are {known}"
    return tuple(usable), ""


def difference(hashes: Hashes, content: bytes) -> str:
    """Return the algorithm whose hash of a file is another one, the empty string if none is."""
    for algorithm, digest in hashes:
        # Some Pythons refuse MD5 unless told that it serves no security: it is what the page has.
        if hashlib.new(algorithm, content, usedforsecurity=False).hexdigest() != digest:
            return algorithm
    return ""


def _digits(algorithm: str) -> int:
    return 2 * hashlib.new(algorithm, usedforsecurity=False).digest_size
