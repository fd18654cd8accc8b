"""Proxies as package installers are configured for them, and the hosts that are reached without."""

from __future__ import annotations

import http.client
import urllib.parse
import urllib.request

from variantwheel_selector.errors import DownloadError
from variantwheel_selector.fetching.urls import redacted

_SCHEMES = ("http", "https")


def proxy_urls(proxy: str | None) -> dict[str, str]:
    """Return the URL of the proxy for each scheme.

    Args:
        proxy: The one for everything, instead of what the environment says.
    """
    proxies = urllib.request.getproxies()
    if proxy is not None:
        proxies = {"http": proxy, "https": proxy}
    elif "all" in proxies:
        proxies = {scheme: proxies.get(scheme, proxies["all"]) for scheme in _SCHEMES}
    return {
        scheme: url if "://" in url else f"http://{url}"
        for scheme, url in proxies.items()
        if scheme in _SCHEMES
    }


def goes_direct(place: str) -> bool:
    """Tell whether a host is one of `no_proxy`, by name, address or network.

    `urllib` compares names alone; pip and uv know networks and addresses of IPv6 without brackets.

    Args:
        place: Host and port as in a URL.
    """
    if urllib.request.proxy_bypass(place):
        return True
    stated = urllib.request.getproxies().get("no", "").split(",")
    networks = [text for text in stated if "/" in text or ":" in text]
    return bool(networks) and _is_within(urllib.parse.urlsplit(f"//{place}").hostname, networks)


def _is_within(host: str | None, networks: list[str]) -> bool:
    """Tell whether a host is an address in one of some networks; an address is one of itself."""
    import ipaddress  # noqa: PLC0415 - rarely needed

    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return False  # a name: nobody looks up its address, as installers do not
    for text in networks:
        try:
            # As installers: of an address that is written for its network, the network counts.
            network = ipaddress.ip_network(text.strip().strip("[]"), strict=False)
        except ValueError:
            continue  # a name or an address with a port, which `urllib` has compared
        if address in network:
            return True
    return False


class ProxyHandler(urllib.request.ProxyHandler):
    """Proxies by the scheme of what is asked for; hosts of `no_proxy` need none."""

    def proxy_open(
        self,
        req: urllib.request.Request,
        proxy: str,
        type: str,  # noqa: A002 - the base class's
    ) -> http.client.HTTPResponse | None:
        if goes_direct(req.host):
            return None
        scheme = proxy.partition("://")[0].lower()
        if scheme != "http":
            spoken = "SOCKS" if scheme.startswith("socks") else scheme.upper()
            raise DownloadError(
                f"the proxy {redacted(proxy)} speaks {spoken}, which is not supported; if it speaks"
                " HTTP as well, state it with http://"
            )
        found: http.client.HTTPResponse | None = super().proxy_open(req, proxy, type)
        return found
