"""Up to which CPU level variants are chosen."""

from __future__ import annotations

from collections.abc import Sequence

from variantwheel_selector.cpu_levels import ARM_VERSIONS, X86_LEVELS
from variantwheel_selector.record import record

DEFAULT_X86_LEVEL = "v3"


@record
class LevelCap:
    """The highest levels that count as supported.

    Attributes:
        x86_64: Of x86-64; none for no limit.
        aarch64: Of AArch64; none for no limit.
        origin: Where the stated levels come from, in words.
        stated: Those of the levels that are no default.
    """

    x86_64: str | None = DEFAULT_X86_LEVEL
    aarch64: str | None = None
    origin: str = ""
    stated: tuple[str, ...] = ()

    def with_stated(self, levels: Sequence[str], origin: str) -> LevelCap:
        """Return the cap that a setting states; architectures that it does not name keep theirs."""
        x86 = next((item for item in levels if item in X86_LEVELS), self.x86_64)
        arm = next((item for item in levels if item in ARM_VERSIONS), self.aarch64)
        return LevelCap(x86, arm, origin, tuple(levels))

    def reason(self, level: str) -> str:
        """Return why levels above `level` do not count."""
        if level in self.stated:
            return f"levels are capped at {level} by {self.origin}"
        return f"levels are capped at {level} unless the variant is asked for by name"


NO_CAP = LevelCap(None, None)
