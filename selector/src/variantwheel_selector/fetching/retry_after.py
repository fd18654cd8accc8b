"""How long a busy server wants to be left alone (RFC 9110, 10.2.3), as pip and uv wait for it."""

from __future__ import annotations

import email.utils
import re
import time
import urllib.error

_BUSY = (413, 429, 503)
_LONGEST_SECONDS = 120.0
"""What waits is silent: of a server that is busy for longer the user hears after a few of these."""


def retry_after(error: BaseException | None) -> str:
    """Return what a busy server states in `Retry-After`; empty if it states nothing or is not."""
    if not isinstance(error, urllib.error.HTTPError) or error.code not in _BUSY:
        return ""
    return " ".join(str(error.headers.get("Retry-After") or "").split())


def pause_seconds(error: BaseException, own: float) -> float:
    """Return how long to wait after a failure.

    Args:
        error: What was raised for it; the answer is its cause.
        own: The least, and what is waited where the server asks for nothing.
    """
    return max(
        own, min(stated_seconds(retry_after(error.__cause__), time.time()), _LONGEST_SECONDS)
    )


def stated_seconds(text: str, now: float) -> float:
    """Return the seconds that a `Retry-After` states, which is a number of them or a date.

    Args:
        text: The field's value.
        now: Seconds since 1970.
    """
    if re.fullmatch(r"[0-9]+", text):
        return float(text)
    try:
        date = email.utils.parsedate_tz(text)
        return 0.0 if date is None else email.utils.mktime_tz(date) - now
    except (ValueError, OverflowError):
        return 0.0
