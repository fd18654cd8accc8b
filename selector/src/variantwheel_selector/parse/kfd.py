"""Facts in the topology of AMD's kernel driver, `/sys/class/kfd/kfd/topology/nodes`."""

from __future__ import annotations

import re

from variantwheel_selector.record import record

MOST_NODES = 256

_NODE_PATTERN = r"node ([0-9]{1,4})"
_PROPERTY_PATTERN = r"([a-z0-9_]{1,64}) ([0-9]{1,20})"
_UNREADABLE = "unreadable "
_OVERRIDE_PATTERN = r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{1,3})"
_NEWEST = 999999
_SRAM_ECC_BIT = 1 << 26  # SRAM_EDCSupport in the HSA_CAPABILITY of ROCm's hsakmttypes.h


@record
class KfdNode:
    """A node: a CPU, a GPU, or both in one chip.

    Attributes:
        number: The name of its folder.
        properties: Numbers by name.
        unreadable: Why it could not be read; empty if it could.
    """

    number: int
    properties: dict[str, int]
    unreadable: str = ""

    @property
    def is_gpu(self) -> bool:
        """Whether it computes."""
        return self.properties.get("simd_count", 0) > 0

    @property
    def gfx(self) -> str | None:
        """The GPU's target, such as `gfx90a`; none if the kernel does not tell."""
        return decode_gfx(self.properties.get("gfx_target_version", 0))

    @property
    def sramecc(self) -> bool | None:
        """Whether the GPU's inner memories correct errors; none if the kernel does not tell."""
        capability = self.properties.get("capability")
        return None if capability is None else bool(capability & _SRAM_ECC_BIT)


def decode_gfx(number: int) -> str | None:
    """Decode `gfx_target_version`, whose last two parts LLVM writes in hexadecimal.

    90010 is gfx90a, 90402 is gfx942, 110501 is gfx1151.
    """
    major, minor, stepping = number // 10000, number // 100 % 100, number % 100
    if not 0 < number <= _NEWEST or not major or minor > 15 or stepping > 15:
        return None
    return f"gfx{major}{minor:x}{stepping:x}"


def override_gfx(text: str) -> str | None:
    """Return the target that a value of HSA_OVERRIDE_GFX_VERSION such as `10.3.0` stands for."""
    match = re.fullmatch(_OVERRIDE_PATTERN, text)
    if match is None:
        return None
    major, minor, stepping = (int(part) for part in match.groups())
    return None if stepping > 99 else decode_gfx(major * 10000 + minor * 100 + stepping)


def parse_kfd_nodes(text: str) -> tuple[KfdNode, ...]:
    """Return the nodes.

    The text is each node's file `properties` after a line with the node's number; lines of any
    other form are passed over::

        node 1
        cpu_cores_count 0
        simd_count 416
        gfx_target_version 90010
        drm_render_minor 128

        node 2
        unreadable Operation not permitted
    """
    nodes: list[KfdNode] = []
    for line in text.splitlines():
        start = re.fullmatch(_NODE_PATTERN, line)
        if start:
            if len(nodes) == MOST_NODES:
                break
            nodes.append(KfdNode(int(start[1]), {}))
        elif nodes and line.startswith(_UNREADABLE):
            nodes[-1] = KfdNode(nodes[-1].number, {}, line.removeprefix(_UNREADABLE)[:200])
        elif nodes and (match := re.fullmatch(_PROPERTY_PATTERN, line.strip())):
            nodes[-1].properties[match[1]] = int(match[2])
    return tuple(nodes)
