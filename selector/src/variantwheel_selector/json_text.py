"""The one layout of all JSON files that are written."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def render_json(document: Mapping[str, object]) -> str:
    """Write a JSON document: two spaces, UTF-8, newline.

    Bytes of a path or variable that are no text (PEP 383) become question marks.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", errors="replace").decode("utf-8")
