"""AArch64's features in the auxiliary vector, by the names of `/proc/cpuinfo`."""

from __future__ import annotations

from collections.abc import Mapping

# AT_HWCAP and AT_HWCAP2 on AArch64 by bit, in the names of the `Features` line (Linux
# arch/arm64/include/uapi/asm/hwcap.h and Documentation/arch/arm64/elf_hwcaps.rst).
_AARCH64_NAMES = {
    "AT_HWCAP": (
        "fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "atomics", "fphp",
        "asimdhp", "cpuid", "asimdrdm", "jscvt", "fcma", "lrcpc", "dcpop", "sha3", "sm3", "sm4",
        "asimddp", "sha512", "sve", "asimdfhm", "dit", "uscat", "ilrcpc", "flagm", "ssbs", "sb",
        "paca", "pacg",
    ),
    "AT_HWCAP2": (
        "dcpodp", "sve2", "sveaes", "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2",
        "frint", "svei8mm", "svef32mm", "svef64mm", "svebf16", "i8mm", "bf16", "dgh", "rng", "bti",
        "mte", "ecv", "afp", "rpres", "mte3", "sme", "smei16i64", "smef64f64", "smei8i32",
        "smef16f32", "smeb16f32", "smef32f32", "smefa64", "wfxt", "ebf16", "sveebf16", "cssc",
        "rprfm", "sve2p1", "sme2", "sme2p1", "smei16i32", "smebi32i32", "smeb16b16", "smef16f16",
        "mops", "hbc", "sveb16b16", "lrcpc3", "lse128", "fpmr", "lut", "faminmax",
    ),
}  # fmt: skip


def aarch64_features(entries: Mapping[str, int]) -> frozenset[str]:
    """Return the names of the `Features` line that AT_HWCAP and AT_HWCAP2 stand for."""
    return frozenset(
        name
        for entry, names in _AARCH64_NAMES.items()
        for bit, name in enumerate(names)
        if entries.get(entry, 0) >> bit & 1
    )
