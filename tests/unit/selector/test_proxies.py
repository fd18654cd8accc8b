"""Proxies: which hosts are reached without one, and what is told where one fails or refuses."""

import pytest

from unit.selector.served_payload import Place
from variantwheel_selector.errors import DownloadError
from variantwheel_selector.fetching.proxies import goes_direct


@pytest.fixture
def dead_proxy(monkeypatch: pytest.MonkeyPatch) -> str:
    """A proxy for everything, through which nothing answers."""
    address = "http://127.0.0.1:1"
    monkeypatch.setenv("http_proxy", address)
    return address


@pytest.mark.parametrize(
    ("stated", "place", "direct"),
    [
        ("10.0.0.0/8", "10.1.2.3:8080", True),
        ("10.0.0.0/8", "11.1.2.3:8080", False),
        ("host, 10.1.2.3/8 ,other", "10.9.9.9", True),
        ("::1", "[::1]:8080", True),
        ("[::1]", "[::1]:8080", True),
        ("[::1]:8080", "[::1]:8080", True),
        ("0:0::1", "[::1]", True),
        ("fd00::/8", "[fd00::7]:80", True),
        ("fd00::/8", "[fe00::7]:80", False),
        ("fd00::/8", "10.1.2.3", False),
        ("10.0.0.0/8", "name.invalid", False),
        ("10.0.0.0/99,a/b,name.invalid:80,10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/99,a/b,name.invalid:80", "10.1.2.3", False),
        ("invalid", "name.invalid:80", True),
        ("*", "10.1.2.3", True),
        ("", "10.1.2.3", False),
    ],
)
def test_hosts_that_need_no_proxy(
    stated: str,
    place: str,
    direct: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", stated)
    assert goes_direct(place) is direct


@pytest.mark.usefixtures("dead_proxy")
def test_a_network_of_no_proxy_is_reached_without_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "10.0.0.0/8,127.0.0.0/8")
    assert place.fetch() == place.data()
    with pytest.raises(DownloadError) as caught:
        place.fetch(PIP_INDEX_URL="http://127.0.0.1:2/simple", PIP_NO_CACHE_DIR="1")
    assert "the proxy" not in str(caught.value)


def test_a_proxy_of_other_networks_is_used(
    place: Place, dead_proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "10.0.0.0/8")
    with pytest.raises(DownloadError, match=f"asked through the proxy {dead_proxy}"):
        place.fetch(PIP_RETRIES="0")


@pytest.mark.parametrize("status", [403, 404, 407])
def test_a_proxy_through_which_a_request_is_refused_is_named(place: Place, status: int) -> None:
    place.faults.statuses["/simple/tiny-native/"] = [status]
    with pytest.raises(DownloadError, match=rf"says {status} .*; it was asked through the proxy "):
        place.fetch(PIP_INDEX_URL="http://index.invalid/simple", PIP_PROXY=place.address)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_spoken_to_over_tls_is_refused(
    place: Place, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{scheme}_proxy", "HTTPS://me:secret@127.0.0.1:1")
    with pytest.raises(DownloadError, match=r"proxy HTTPS://\*\*\*@127.0.0.1:1 speaks HTTPS, "):
        place.fetch(PIP_INDEX_URL=f"{scheme}://index.invalid/simple")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert place.fetch() == place.data()
