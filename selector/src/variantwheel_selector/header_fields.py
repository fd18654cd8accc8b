"""Header fields of METADATA and WHEEL; `email` would take longer to import than all else here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def header_values(text: bytes, field: str) -> Iterator[str]:
    """Give the values of a field, in order; only lines before the first empty one count.

    Args:
        text: The file.
        field: The field's name in any case.
    """
    for line in text.decode("utf-8", errors="replace").splitlines():
        if not line:
            return
        name, colon, value = line.partition(":")
        if colon and name.lower() == field.lower():
            yield value.strip()
