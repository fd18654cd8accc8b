"""How the user reaches the network, as far as configuration says; imports no network module."""

from __future__ import annotations

from variantwheel_selector.record import field, record

LONGEST_SECONDS = 86400.0
"""No answer is waited for any longer, whatever is stated: systems take no time of any length."""
MOST_RETRIES = 1_000_000


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


def read_seconds(text: str, default: float) -> float:
    """Return a time without an answer as a setting states it, a day at most.

    Args:
        text: What is stated.
        default: What stands where that is no time, or none that an answer may take.
    """
    try:
        seconds = float(text)
    except ValueError:
        return default
    return min(seconds, LONGEST_SECONDS) if seconds > 0 else default  # NaN is not either


def read_retries(text: str, default: int) -> int:
    """Return how often something goes on, as a setting states it, or the default."""
    try:
        return int(min(max(float(text), 0.0), MOST_RETRIES))
    except ValueError:
        return default
