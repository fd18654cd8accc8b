"""Names of CPU levels and features: x86-64's levels, AArch64's versions and features."""

from __future__ import annotations

X86_LEVELS = ("v1", "v2", "v3", "v4")
ARM_VERSIONS = (
    "8a", "8.1a", "8.2a", "8.3a", "8.4a", "8.5a", "8.6a", "8.7a", "9a", "9.1a", "9.2a"
)  # fmt: skip
"""Architecture versions of AArch64."""
ARM_FEATURES = (
    "sme2", "sme", "sve2p1", "sve2", "svebf16", "svei8mm", "sve", "mops", "i8mm", "bf16",
    "asimddp", "asimdfhm", "asimdhp", "sha512", "sha3", "atomics",
)  # fmt: skip
"""Features of AArch64 that a variant may need by themselves, in the names of Linux."""
