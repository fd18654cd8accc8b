"""URLs as users write them, with secrets inside: taking them apart, and words for messages."""

from __future__ import annotations

import re
import urllib.parse

from variantwheel_selector.errors import DownloadError
from variantwheel_selector.record import record
from variantwheel_selector.redaction import LOGIN

_SIGNS = "!#$%&'()*+,/:;=?@[]~"
"""Signs of URLs (RFC 3986)."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


@record
class Origin:
    """What decides whether two URLs may share credentials (RFC 6454)."""

    scheme: str
    host: str
    port: int | None


@record
class Login:
    """A user name, with a password unless that has yet to be asked for."""

    user: str
    password: str | None = None

    def __repr__(self) -> str:
        """Tell nothing, so that no message ever does."""
        return "Login(…)"


def redacted(url: str) -> str:
    """Return a URL for messages: without user, password, query and fragment.

    >>> redacted("https://me:secret@host/simple/?token=1")
    'https://***@host/simple/?…'
    """
    url = re.sub(LOGIN, "***@", url, count=1)
    path, mark, _ = url.partition("#")[0].partition("?")
    return f"{path}?…" if mark else path


def split_login(url: str) -> tuple[str, Login | None]:
    """Return a URL without user and password, and those.

    Raises:
        DownloadError: This is no URL.
    """
    parts = _split(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, colon, password = login.partition(":")
    unquote = urllib.parse.unquote
    return (
        urllib.parse.urlunsplit(parts._replace(netloc=host)),
        Login(unquote(user), unquote(password) if colon else None),
    )


def quoted(url: str) -> str:
    """Return a URL as it is sent: what must not stand there is escaped, what is escaped stays.

    >>> quoted("http://host/my wheels/ü%20.whl")
    'http://host/my%20wheels/%C3%BC%20.whl'
    """
    parts = _split(url)
    rest = (parts.path, parts.query, parts.fragment)
    path, query, fragment = (urllib.parse.quote(part, _SIGNS) for part in rest)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, query, fragment))


def origin(url: str) -> Origin:
    """Return a URL's scheme, host and port.

    Raises:
        DownloadError: This is no URL.
    """
    parts = _split(url)
    try:
        port = parts.port
    except ValueError as error:
        raise DownloadError(f"{redacted(url)} is no URL: its port is no number") from error
    scheme = parts.scheme.lower()
    return Origin(scheme, (parts.hostname or "").lower(), port or _DEFAULT_PORTS.get(scheme))


def _split(url: str) -> urllib.parse.SplitResult:
    try:
        return urllib.parse.urlsplit(url)
    except ValueError as error:
        raise DownloadError(f"{redacted(url)} is no URL") from error
