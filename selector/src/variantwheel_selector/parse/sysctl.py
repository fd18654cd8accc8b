"""Facts in macOS' `sysctl`: the CPU's features, and whether Rosetta translates this process."""

from __future__ import annotations

NAMES = (
    "sysctl.proc_translated",
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "machdep.cpu.extfeatures",
    "hw.optional.arm64",
    "hw.optional.avx512f",
    *(
        f"hw.optional.{name}"
        for name in ("floatingpoint", "neon", "armv8_1_atomics", "armv8_crc32", "armv8_2_fhm",
                     "armv8_2_sha512", "armv8_2_sha3")
    ),
    *(
        f"hw.optional.arm.FEAT_{name}"
        for name in ("LSE", "RDM", "CRC32", "DPB", "DPB2", "FCMA", "JSCVT", "LRCPC", "LRCPC2",
                     "DotProd", "DIT", "FlagM", "FlagM2", "LSE2", "FRINTTS", "SB", "BF16", "I8MM",
                     "FHM", "FP16", "SHA3", "SHA512", "SME", "SME2", "AFP", "WFxT")
    ),
)  # fmt: skip
"""What is asked for."""

# In the spelling of macOS; the levels of x86-64 are made of the names of /proc/cpuinfo.
_X86 = {
    "CMOV": "cmov", "CX8": "cx8", "FPU": "fpu", "FXSR": "fxsr", "MMX": "mmx", "SSE": "sse",
    "SSE2": "sse2", "CX16": "cx16", "LAHF": "lahf_lm", "SSE3": "pni", "POPCNT": "popcnt",
    "SSE4.1": "sse4_1", "SSE4.2": "sse4_2", "SSSE3": "ssse3", "LZCNT": "abm", "AVX1.0": "avx",
    "AVX2": "avx2", "BMI1": "bmi1", "BMI2": "bmi2", "F16C": "f16c", "FMA": "fma", "MOVBE": "movbe",
    "OSXSAVE": "xsave", "AVX512F": "avx512f", "AVX512BW": "avx512bw", "AVX512CD": "avx512cd",
    "AVX512DQ": "avx512dq", "AVX512VL": "avx512vl",
}  # fmt: skip
_ARM = {
    "hw.optional.arm.FEAT_LSE": "atomics", "hw.optional.armv8_1_atomics": "atomics",
    "hw.optional.arm.FEAT_RDM": "asimdrdm", "hw.optional.arm.FEAT_CRC32": "crc32",
    "hw.optional.armv8_crc32": "crc32", "hw.optional.arm.FEAT_DPB": "dcpop",
    "hw.optional.arm.FEAT_DPB2": "dcpodp", "hw.optional.arm.FEAT_FCMA": "fcma",
    "hw.optional.arm.FEAT_JSCVT": "jscvt", "hw.optional.arm.FEAT_LRCPC": "lrcpc",
    "hw.optional.arm.FEAT_LRCPC2": "ilrcpc", "hw.optional.arm.FEAT_DotProd": "asimddp",
    "hw.optional.arm.FEAT_DIT": "dit", "hw.optional.arm.FEAT_FlagM": "flagm",
    "hw.optional.arm.FEAT_FlagM2": "flagm2", "hw.optional.arm.FEAT_LSE2": "uscat",
    "hw.optional.arm.FEAT_FRINTTS": "frint", "hw.optional.arm.FEAT_SB": "sb",
    "hw.optional.arm.FEAT_BF16": "bf16", "hw.optional.arm.FEAT_I8MM": "i8mm",
    "hw.optional.arm.FEAT_FHM": "asimdfhm", "hw.optional.armv8_2_fhm": "asimdfhm",
    "hw.optional.arm.FEAT_FP16": "asimdhp", "hw.optional.arm.FEAT_SHA3": "sha3",
    "hw.optional.armv8_2_sha3": "sha3", "hw.optional.arm.FEAT_SHA512": "sha512",
    "hw.optional.armv8_2_sha512": "sha512", "hw.optional.arm.FEAT_SME": "sme",
    "hw.optional.arm.FEAT_SME2": "sme2", "hw.optional.arm.FEAT_AFP": "afp",
    "hw.optional.arm.FEAT_WFxT": "wfxt", "hw.optional.neon": "asimd",
    "hw.optional.floatingpoint": "fp",
}  # fmt: skip


def parse_sysctl(text: str) -> dict[str, str]:
    """Return values by name from lines `NAME: VALUE`."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon and name.strip() in NAMES:
            found[name.strip()] = value.strip()
    return found


def is_translated(values: dict[str, str]) -> bool:
    """Tell whether this is an x86-64 process on Apple silicon, under Rosetta."""
    return values.get("sysctl.proc_translated") == "1"


def x86_flags(values: dict[str, str]) -> frozenset[str] | None:
    """Return the CPU's flags in the names of `/proc/cpuinfo`, or none if there are none."""
    words: list[str] = []
    for name in ("features", "leaf7_features", "extfeatures"):
        words += values.get(f"machdep.cpu.{name}", "").split()
    flags = frozenset(_X86[word] for word in words if word in _X86)
    return flags or None


def arm_features(values: dict[str, str]) -> frozenset[str] | None:
    """Return the features of Apple silicon in the names of Linux, or none if there are none."""
    found = {feature for name, feature in _ARM.items() if values.get(name) == "1"}
    if values.get("hw.optional.arm64") == "1":
        found |= {"fp", "asimd"}
    return frozenset(found) or None
