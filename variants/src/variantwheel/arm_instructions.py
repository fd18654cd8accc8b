"""Which version of the Arm architecture a piece of AArch64 code needs, found by disassembling it.

Source: Arm Architecture Reference Manual, A2 "Armv8-A Architecture Extensions". A version counts as
what it made mandatory; what stayed optional, cryptography or half-precision arithmetic for example,
is above all versions. Hints, which old CPUs run as no-operations, are of no version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from capstone import (  # type: ignore[import-untyped,unused-ignore]
    CS_ARCH_ARM64,
    CS_MODE_LITTLE_ENDIAN,
    Cs,
)

from variantwheel.instruction_levels import is_dispatched, place_of
from variantwheel.named_functions import NamedFunctions
from variantwheel.native_library import CodeSection

Version = tuple[int, int]
"""Major and minor number of the architecture's version."""

BASELINE: Version = (8, 0)
_OPTIONAL: Version = (99, 0)

_FEATURES: tuple[tuple[Version, str, re.Pattern[str]], ...] = tuple(
    (version, name, re.compile(pattern))
    for version, name, pattern in (
        # "mnemonic operands"; the first that matches counts.
        (_OPTIONAL, "SVE or SME", r"\S+ .*\b(?:z\d+|p\d+)\b|(?:smstart|smstop|rdvl|cnt[bhwd]) "),
        (_OPTIONAL, "BF16", r"bf(?:dot|mmla|mlal[bt]?|cvtn?2?|dot)\b"),
        (_OPTIONAL, "I8MM", r"(?:[su]|us)mmla |(?:us|su)dot "),
        (
            _OPTIONAL,
            "AES or SHA",
            r"(?:aes|sha(?:1|256|512)|sm[34]|eor3|rax1|xar|bcax|pmull2?.*\.1q)",
        ),
        (_OPTIONAL, "FHM", r"fml[as]l2? "),
        (_OPTIONAL, "MTE", r"(?:irg|gmi|st2?z?g|stz2g|ldg|subps?|addg|subg) "),
        (_OPTIONAL, "RNG", r"mrs .*(?:rndr|rndrrs)"),
        ((8, 7), "WFxT", r"wf[ei]t "),
        ((8, 5), "FRINTTS", r"frint(?:32|64)[xz] "),
        ((8, 5), "FlagM2 or SB", r"(?:axflag|xaflag|sb) ?$"),
        ((8, 4), "DotProd", r"[su]dot "),
        ((8, 4), "LRCPC2", r"(?:ldapur|stlur)"),
        ((8, 4), "FlagM", r"(?:cfinv|rmif|setf8|setf16)\b"),
        ((8, 3), "LRCPC", r"ldapr[bh]? "),
        ((8, 3), "JSCVT or FCMA", r"(?:fjcvtzs|fcmla|fcadd) "),
        (
            (8, 3),
            "PAuth",
            r"(?:reta[ab]|bl?ra[ab]z?|ldra[ab]|eretaa|xpac[id]|pac(?:ia|ib|da|db|ga)) ?",
        ),
        ((8, 2), "DPB", r"dc cvap\b"),
        (
            (8, 1),
            "LSE",
            r"(?:casp?|swp|(?:ld|st)(?:add|clr|eor|set|[su]max|[su]min))(?:a|l|al)?[bh]? ",
        ),
        ((8, 1), "RDM", r"sqrdml[as]h "),
        ((8, 1), "CRC32", r"crc32"),
    )
)
# Arithmetic on half-precision registers; conversions to and from them are of the first version.
_HALF_ARITHMETIC = re.compile(
    r"(?!fcvt(?:l2?|n2?|xn2?)? |fcvt [hsd]\d+, [hsd]\d+|fmov [hsdwx]\d+, )"
    r"(?:f\w+|[su]cvtf) .*\b(?:h\d+|v\d+\.[48]h)\b"
)  # fmt: skip
_HINTS = re.compile(r"(?:paciasp|pacibsp|autiasp|autibsp|pac[ia][ab]1716|paciaz|pacibz|xpaclri) ?")

# LLVM's unwinder, in every library, clears the tags of frames that say they have some: only
# code compiled for memory tagging makes such frames.
_UNWINDER = re.compile(r"stg (x\d+), \[\1\]$")


def parse_version(isa: str) -> Version:
    """Return the version of a name such as `armv8.4`.

    >>> parse_version("armv8.4")
    (8, 4)
    """
    major, minor = isa.removeprefix("armv").split(".")
    return int(major), int(minor)


def arm_instructions_above(
    version: Version,
    code: Sequence[CodeSection],
    functions: NamedFunctions,
    dispatched: Sequence[str] = (),
) -> list[str]:
    """Disassemble code and find what a CPU of a version does not run, or nobody knows.

    Args:
        version: The highest version that the code may need.
        code: Executable sections.
        functions: Those known by name.
        dispatched: Patterns of names of functions that are not judged.

    Returns:
        One finding for each feature, in words.
    """
    # Armv9 extends the version of Armv8 with the same number and five more.
    allowed = version if version[0] == 8 else (8, version[1] + 5)
    first: dict[str, tuple[Version, str]] = {}
    counts: dict[str, int] = {}
    disassembler = Cs(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN)
    # Words that it does not know are handed on as `.byte`.
    disassembler.skipdata = True
    known: dict[str, tuple[Version, str]] = {}
    for section in code:
        for address, _, mnemonic, operands in disassembler.disasm_lite(
            section.data, section.address
        ):
            text = f"{mnemonic} {operands}"
            need = known.get(text)
            if need is None:
                need = known[text] = _need(mnemonic, text)
            if need[0] <= allowed:
                continue
            if dispatched and is_dispatched(address, functions, dispatched):
                continue
            counts[need[1]] = counts.get(need[1], 0) + 1
            place = place_of(address, section, functions)
            first.setdefault(need[1], (need[0], f"`{text}` in {place}"))
    return [
        f"{where} needs {feature} ({_words(needed)}); {counts[feature]} such"
        for feature, (needed, where) in sorted(first.items())
    ]


def _need(mnemonic: str, text: str) -> tuple[Version, str]:
    if mnemonic == ".byte":
        return _OPTIONAL, "an instruction that the disassembler does not know"
    if _HINTS.match(text) or _UNWINDER.match(text):
        return BASELINE, ""
    if _HALF_ARITHMETIC.match(text):
        return _OPTIONAL, "half-precision arithmetic"
    for version, name, pattern in _FEATURES:
        if pattern.match(text):
            return version, name
    return BASELINE, ""


def _words(version: Version) -> str:
    return "no version" if version == _OPTIONAL else f"armv{version[0]}.{version[1]}"
