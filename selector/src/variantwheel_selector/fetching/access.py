"""How the user reaches the network, as far as configuration says; imports no network module."""

from __future__ import annotations

from variantwheel_selector.record import field, record


@record
class WebAccess:
    """How the user reaches the network.

    Attributes:
        certificate: A bundle of authorities instead of the system's, or a folder of them.
        client_certificate: Shown to servers that ask.
        proxy: Used for everything, instead of what the environment says.
        trusted_hosts: `host` or `host:port` whose certificate is not checked.
        timeout: Seconds without an answer.
        retries: How often a broken download goes on.
    """

    certificate: str | None = None
    client_certificate: str | None = None
    proxy: str | None = field(default=None, repr=False)
    trusted_hosts: tuple[str, ...] = ()
    timeout: float = 15.0
    retries: int = 5
