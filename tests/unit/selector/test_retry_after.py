"""Servers that are busy and say for how long."""

import email.message
import urllib.error

import pytest

from unit.selector.served_payload import Place
from variantwheel_selector.errors import DownloadError, TemporaryDownloadError
from variantwheel_selector.fetching.retry_after import pause_seconds, stated_seconds

PAGE = "/simple/tiny-native/"


@pytest.mark.parametrize("status", [413, 429, 503])
def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(place: Place, status: int) -> None:
    place.faults.rests = {PAGE: (status, 1), f"{PAGE}{place.wheel.filename}": (status, 1)}
    assert place.fetch(PIP_RETRIES="1") == place.data(), "it would refuse whoever comes sooner"
    assert len(place.faults.requests) == 4


def test_a_server_that_is_busy_for_long_is_told_of(place: Place) -> None:
    place.faults.rests[PAGE] = (429, 3600)
    with pytest.raises(DownloadError, match=r"says 429 .*; it wants .* \(Retry-After: 3600\)"):
        place.fetch(PIP_RETRIES="0")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("13", 13), ("9" * 5000, float("inf")), ("", 0), ("soon", 0), ("-5", 0), ("²", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37), ("Sunday, 06-Nov-94 08:49:37 GMT", 37),
        ("Sun, 06 Nov 99999999999 08:49:37 GMT", 0), ("Sun, 06 Nom 1994 08:49:37 GMT", 0),
    ],
)  # fmt: skip
def test_seconds_or_a_date(text: str, seconds: float) -> None:
    assert stated_seconds(text, 784111740.0) == seconds


@pytest.mark.parametrize(
    ("status", "stated", "pause"),
    [
        (429, "13", 13), (429, "1", 4), (429, "99999", 120), (500, "13", 4), (413, None, 4),
        (503, "Sun, 06 Nov 1994 08:49:37 GMT", 4), (503, "Sun, 06 Nov 2994 08:49:37 GMT", 120),
    ],
)  # fmt: skip
def test_a_pause_has_bounds(status: int, stated: str | None, pause: float) -> None:
    headers = email.message.Message()
    if stated is not None:
        headers["Retry-After"] = stated
    error = TemporaryDownloadError("busy")
    error.__cause__ = urllib.error.HTTPError("http://host/", status, "busy", headers, None)
    assert pause_seconds(error, 4.0) == pause
    assert pause_seconds(TemporaryDownloadError("broke off"), 4.0) == 4
