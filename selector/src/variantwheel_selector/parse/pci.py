"""Facts in PCI listings: which graphics cards there are, and which driver holds each."""

from __future__ import annotations

import re

from variantwheel_selector.record import record

VENDORS = {"10de": "NVIDIA", "1002": "AMD"}
MOST_CARDS = 64

_LISTED = r"([0-9a-f]{2})([0-9a-f]{2})\t(10de|1002)([0-9a-f]{4})\t.*"
_CARD = (
    r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (10de|1002):([0-9a-f]{4}) (\S{1,64})"
    r"(?: gc=([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}))?"
)
# Of graphics cores before 10.1.1, the targets in Linux' kfd_device.c; later ones follow a rule.
_TARGETS = {
    "9.0.1": "gfx900", "9.4.0": "gfx906", "9.4.1": "gfx908", "9.4.2": "gfx90a",
    "9.4.3": "gfx942", "9.4.4": "gfx942", "9.5.0": "gfx950", "10.1.10": "gfx1010",
}  # fmt: skip


@record
class PciCard:
    """A graphics card or accelerator.

    Attributes:
        address: Such as `0000:01:00.0`.
        vendor: `10de` or `1002`.
        device: The device number, in hexadecimal.
        driver: Of the kernel; empty if none holds the card.
        core: Version of AMD's graphics core, such as `11.0.0`; empty if it was not told.
    """

    address: str
    vendor: str
    device: str
    driver: str
    core: str = ""

    @property
    def target(self) -> str:
        """AMD's target such as `gfx1100` that the graphics core stands for, or nothing.

        Good enough for advice: cards of one version may differ (9.4.3 has several).
        """
        if self.core in _TARGETS:
            return _TARGETS[self.core]
        major, minor, step = (int(part) for part in (self.core or "0.0.0").split("."))
        return f"gfx{major}{minor:x}{step:x}" if major >= 10 and minor < 16 and step < 16 else ""

    def words(self) -> str:
        """Return the card in words."""
        holder = f"in the hands of {self.driver}" if self.driver else "without a driver"
        target = f", {self.target} by its graphics core {self.core}" if self.target else ""
        return f"{self.vendor}:{self.device} at {self.address}, {holder}{target}"


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

    The text looks like this, with `-` where no driver holds the card, and what the amdgpu driver
    tells of the graphics core (`ip_discovery`) where it does::

        0000:01:00.0 10de:2684 nouveau
        0000:41:00.0 1002:740f -
        0000:43:00.0 1002:744c amdgpu gc=11.0.0
    """
    cards: list[PciCard] = []
    for line in text.split("\n")[:MOST_CARDS]:
        match = re.fullmatch(_CARD, line.strip())
        if match:
            driver = "" if match[4] == "-" else match[4]
            cards.append(PciCard(match[1], match[2], match[3], driver, match[5] or ""))
    return tuple(cards)
