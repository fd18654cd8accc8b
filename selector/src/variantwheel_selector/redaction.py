"""Takes out of a URL what may be secret in it."""

from __future__ import annotations

import re

_COLON = r":(?!\d*(?:[/?#]|$))"
"""One without a port after it: it belongs to a login."""
_NO_PORT = rf"[^/?#@\[]*{_COLON}"
_AFTER_SCHEME = rf"(?<=://)(?:[^/?#]*@|(?s:{_NO_PORT}.*@))"
_WITHOUT_SCHEME = rf"^(?:[^/?#\s]*@|[^/?#@\[\s]*{_COLON}.*@)"
LOGIN = rf"(?:{_AFTER_SCHEME}|{_WITHOUT_SCHEME})"
"""User and password of a URL, also where they hold blanks, or the password '/', '?' or '#'."""
_QUERY = r"[?#].*"


def without_credentials(text: str) -> str:
    """Return a URL without user, password, query and fragment.

    >>> without_credentials("https://me:s3/cret@host/simple?token=1")
    'https://host/simple'
    """
    return re.sub(_QUERY, "", re.sub(LOGIN, "", text, count=1))


def is_ambiguous(url: str) -> bool:
    """Tell whether a URL's login is not to be told from its path, or its port is no number."""
    return re.match(rf"\w+://{_NO_PORT}[^@/?#]*(?:[/?#]|$)", url) is not None
