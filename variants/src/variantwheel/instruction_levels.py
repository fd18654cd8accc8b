"""Which x86-64 psABI level a piece of machine code needs, found by disassembling it.

Source of the levels: x86-64 psABI, "Micro-Architecture Levels". The code is decoded from its start
to its end without following jumps; padding between functions decodes as harmless instructions.

What does not decode is data, as a rule, which hand-written code has between its functions. Code for
newer CPUs than the disassembler knows (APX, AVX10.2) is told from it by its first bytes.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from iced_x86 import Code, CpuidFeature, Decoder, Instruction

from variantwheel.named_functions import NamedFunctions
from variantwheel.native_library import CodeSection

BEYOND_ALL_LEVELS = 5
"""The level of instructions that no psABI level guarantees, such as AES."""

_LEVEL_1 = """INTEL8086 INTEL186 INTEL286 INTEL386 INTEL486 X64 CPUID CMOV CX8 FPU FPU287 FPU387
    FXSR MMX MSR MULTIBYTENOP PAUSE SSE SSE2 SYSCALL TSC CLFSH SEP UDBG"""
# Older CPUs run these as no-operations, which is what compilers and libgcc rely on.
_HARMLESS = "CET_IBT CET_SS PREFETCHW"
_LEVEL_2 = "CMPXCHG16B POPCNT SSE3 SSSE3 SSE4_1 SSE4_2"
_LEVEL_3 = "AVX AVX2 BMI1 BMI2 F16C FMA LZCNT MOVBE XSAVE"
_LEVEL_4 = "AVX512F AVX512BW AVX512CD AVX512DQ AVX512VL"


def _feature_levels() -> dict[int, int]:
    levels: dict[int, int] = {}
    for level, names in (
        (1, f"{_LEVEL_1} {_HARMLESS}"),
        (2, _LEVEL_2),
        (3, _LEVEL_3),
        (4, _LEVEL_4),
    ):
        levels |= {getattr(CpuidFeature, name): level for name in names.split()}
    return levels


_FEATURE_LEVELS: Mapping[int, int] = MappingProxyType(_feature_levels())
_UNKNOWN = -1
"""Stands for the features of an instruction that the disassembler does not know."""
_FEATURE_NAMES: Mapping[int, str] = MappingProxyType(
    {value: name for name, value in vars(CpuidFeature).items() if name.isupper()}
    | {_UNKNOWN: "a feature that the disassembler does not know"}
)
_LEGACY_PREFIXES = bytes.fromhex("26 2e 36 3e 64 65 66 67 f0 f2 f3")
# VEX, EVEX and REX2: whatever was added to the instruction set since AVX begins with one of them.
_NEWER_PREFIXES = (b"\xc4", b"\xc5", b"\x62", b"\xd5")
_TEXT = frozenset(range(0x20, 0x7F))
# Compilers write `rep bsf` at every level: an old CPU ignores the prefix, a new one runs TZCNT, and
# both agree on every operand that they use it for. XGETBV is how code asks what it may use.
_LEVEL_1_CODES = frozenset(
    {Code.TZCNT_R16_RM16, Code.TZCNT_R32_RM32, Code.TZCNT_R64_RM64, Code.XGETBV}
)


@dataclass(frozen=True)
class InstructionFinding:
    """The first instruction of its kind that is above a level.

    Attributes:
        level: The psABI level that it needs, or `BEYOND_ALL_LEVELS`.
        features: The CPU features that it needs.
        text: Disassembled.
        place: Function or section and address.
        count: How many there are that need the same features.
    """

    level: int
    features: tuple[str, ...]
    text: str
    place: str
    count: int

    def __str__(self) -> str:
        need = "no level" if self.level == BEYOND_ALL_LEVELS else f"x86_64_v{self.level}"
        return (
            f"`{self.text}` in {self.place} needs {' and '.join(self.features)} ({need}); "
            f"{self.count} such"
        )


def instructions_above(
    level: int,
    code: Sequence[CodeSection],
    functions: NamedFunctions,
    dispatched: Sequence[str] = (),
) -> list[InstructionFinding]:
    """Disassemble code and find what a CPU of a level does not run.

    Args:
        level: The psABI level, 1 to 4.
        code: Executable sections.
        functions: Those known by name.
        dispatched: Patterns of names of functions that are not judged.

    Returns:
        One finding for each set of CPU features, the most demanding first.
    """
    first: dict[tuple[int, ...], tuple[int, str, str]] = {}
    counts: dict[tuple[int, ...], int] = {}
    for section in code:
        for needed, features, instruction in _demanding(section, level):
            if dispatched and is_dispatched(instruction.ip, functions, dispatched):
                continue
            counts[features] = counts.get(features, 0) + 1
            if features not in first:
                place = place_of(instruction.ip, section, functions)
                first[features] = (needed, _text(section, instruction), place)
    findings = [
        InstructionFinding(
            level=needed,
            features=tuple(_FEATURE_NAMES.get(item, str(item)) for item in features),
            text=text,
            place=place,
            count=counts[features],
        )
        for features, (needed, text, place) in first.items()
    ]
    return sorted(findings, key=lambda finding: (-finding.level, finding.features))


def _demanding(
    section: CodeSection, level: int
) -> Iterator[tuple[int, tuple[int, ...], Instruction]]:
    """Decode a section; yield the instructions above the level."""
    by_code: dict[int, tuple[int, tuple[int, ...]]] = {}
    for instruction in Decoder(64, section.data, ip=section.address):
        known = by_code.get(instruction.code)
        if known is None:
            known = by_code[instruction.code] = _need(instruction)
        if known[0] > level and not (instruction.is_invalid and _is_data(section, instruction)):
            yield known[0], known[1], instruction


def _need(instruction: Instruction) -> tuple[int, tuple[int, ...]]:
    """Return the level of an instruction and the features that are above level 1."""
    if instruction.is_invalid:
        return BEYOND_ALL_LEVELS, (_UNKNOWN,)
    if instruction.code in _LEVEL_1_CODES:
        return 1, ()
    needs = {
        feature: _FEATURE_LEVELS.get(feature, BEYOND_ALL_LEVELS)
        for feature in instruction.cpuid_features()
    }
    level = max(needs.values(), default=1)
    return level, tuple(sorted(feature for feature, need in needs.items() if need > 1))


def _is_data(section: CodeSection, invalid: Instruction) -> bool:
    """Tell whether what does not decode is no instruction: a constant, or part of a text."""
    start = invalid.ip - section.address
    encoded = section.data[start : start + invalid.len].lstrip(_LEGACY_PREFIXES)
    if not encoded.startswith(_NEWER_PREFIXES):
        return True
    before, after = section.data[max(0, start - 8) : start], section.data[start : start + 8]
    return _TEXT.issuperset(after) or (len(before) == 8 and _TEXT.issuperset(before))


def _text(section: CodeSection, instruction: Instruction) -> str:
    if not instruction.is_invalid:
        return str(instruction)
    start = instruction.ip - section.address
    return f".byte {section.data[start : start + instruction.len].hex(' ')}"


def place_of(address: int, section: CodeSection, functions: NamedFunctions) -> str:
    """Name the function that an address lies in, or else its section, and the address."""
    name = next(functions.names_at(address), "")
    return (
        f"{name} at {address:#x}" if name else f"{section.name} at {address:#x} (no named function)"
    )


def is_dispatched(address: int, functions: NamedFunctions, patterns: Sequence[str]) -> bool:
    """Tell whether an address lies in a function whose name matches one of some patterns."""
    return any(
        fnmatch.fnmatchcase(name, pattern)
        for name in functions.names_at(address)
        for pattern in patterns
    )
