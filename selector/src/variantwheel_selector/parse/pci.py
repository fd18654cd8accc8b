"""Facts in PCI listings: which graphics cards there are, and which driver holds each."""

from __future__ import annotations

import re

from variantwheel_selector.record import record

VENDORS = {"10de": "NVIDIA", "1002": "AMD"}
MOST_CARDS = 64

_LISTED = r"([0-9a-f]{2})([0-9a-f]{2})\t(10de|1002)([0-9a-f]{4})\t.*"
_CARD = r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (10de|1002):([0-9a-f]{4}) (\S{1,64})"


@record
class PciCard:
    """A graphics card or accelerator.

    Attributes:
        address: Such as `0000:01:00.0`.
        vendor: `10de` or `1002`.
        device: The device number, in hexadecimal.
        driver: Of the kernel; empty if none holds the card.
    """

    address: str
    vendor: str
    device: str
    driver: str

    def words(self) -> str:
        """Return the card in words."""
        holder = f"in the hands of {self.driver}" if self.driver else "without a driver"
        return f"{self.vendor}:{self.device} at {self.address}, {holder}"


def listed_addresses(text: str) -> list[tuple[str, str, str]]:
    """Return bus address without domain, vendor and device number of what may be a GPU.

    The text is `/proc/bus/pci/devices`: bus, device and function in one number, vendor and device
    in the next, then addresses, and at the end the driver::

        0100	10de2684	10	...	nouveau
    """
    found: list[tuple[str, str, str]] = []
    for line in text.split("\n"):
        match = re.fullmatch(_LISTED, line)
        if match and len(found) < MOST_CARDS:
            place = int(match[2], 16)
            found.append((f"{match[1]}:{place >> 3:02x}.{place & 7}", match[3], match[4]))
    return found


def is_gpu_class(text: str) -> bool:
    """Tell whether a PCI class such as `0x030200` is a display or processing accelerator."""
    return text.strip().startswith(("0x03", "0x12"))


def parse_pci_cards(text: str) -> tuple[PciCard, ...]:
    """Return the cards; lines of any other form are passed over.

    The text looks like this, with `-` where no driver holds the card::

        0000:01:00.0 10de:2684 nouveau
        0000:41:00.0 1002:740f -
    """
    cards: list[PciCard] = []
    for line in text.split("\n")[:MOST_CARDS]:
        match = re.fullmatch(_CARD, line.strip())
        if match:
            cards.append(PciCard(match[1], match[2], match[3], "" if match[4] == "-" else match[4]))
    return tuple(cards)
