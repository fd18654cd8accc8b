"""Takes out of a URL what may be secret in it."""

from __future__ import annotations

import re

_USER = r"(?<=://)[^/?#\s]*@"
_QUERY = r"[?#].*"


def without_credentials(text: str) -> str:
    """Return a URL without user, password, query and fragment."""
    return re.sub(_QUERY, "", re.sub(_USER, "", text))
