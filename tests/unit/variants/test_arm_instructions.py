"""Which version of the architecture AArch64 instructions need; the words are their encodings."""

from __future__ import annotations

import struct

import pytest

from variantwheel.arm_instructions import BASELINE, arm_instructions_above, parse_version
from variantwheel.named_functions import NamedFunction, NamedFunctions
from variantwheel.native_library import CodeSection

BASE = {
    "nop": 0xD503201F,
    "fcvt s0, h1": 0x1EE24020,
    "fcvtl v0.4s, v1.4h": 0x0E217820,
    "fadd v0.4s, v1.4s, v2.4s": 0x4E22D420,
    "paciasp": 0xD503233F,
    "bti c": 0xD503245F,
    "dmb ish": 0xD5033BBF,
    "stg x8, [x8], which is the unwinder's": 0xD9200908,
    "ldaxr x0, [x1]": 0xC85FFC20,
}
ABOVE = {
    (8, 1): {"ldaddal w0, w0, [x1]": 0xB8E00020, "crc32b w0, w1, w2": 0x1AC24020},
    (8, 3): {
        "ldaprb w0, [x1]": 0x38BFC020,
        "fcmla v0.4s, v1.4s, v2.4s": 0x6E82C420,
        "retaa": 0xD65F0BFF,
    },
    (8, 4): {"sdot": 0x4E829420, "ldapur w0, [x1]": 0x99400020, "cfinv": 0xD500401F},
    None: {
        "ptrue p0.b": 0x2518E3E0,
        "bfdot": 0x6E42FC20,
        "smmla": 0x4E82A420,
        "aese": 0x4E284820,
        "fadd v0.8h, v1.8h, v2.8h": 0x4E421420,
        "stg x8, [x9]": 0xD9200928,
        "undefined": 0xFFFFFFFF,
    },
}
CASES = [(version, name, word) for version, words in ABOVE.items() for name, word in words.items()]


def _above(version: tuple[int, int], *words: int) -> list[str]:
    code = CodeSection(".text", 0x1000, struct.pack(f"<{len(words)}I", *words))
    functions = NamedFunctions([NamedFunction(0x1000, 0x1000 + 4 * len(words), "sum")])
    return arm_instructions_above(version, [code], functions)


def test_what_every_cpu_runs_is_no_finding() -> None:
    assert _above(BASELINE, *BASE.values()) == []


@pytest.mark.parametrize(("version", "name", "word"), CASES, ids=[name for _, name, _ in CASES])
def test_an_instruction_is_found_below_its_version_and_not_from_it_on(
    version: tuple[int, int] | None, name: str, word: int
) -> None:
    (finding,) = _above(BASELINE, BASE["nop"], word, word)
    assert "sum at 0x1004" in finding
    assert finding.endswith("2 such")
    if version is None:
        assert "(no version)" in finding
        assert _above((9, 2), word)
    else:
        assert f"armv{version[0]}.{version[1]}" in finding
        assert _above((8, version[1] - 1), word)
        assert _above(version, word) == []
        assert _above((9, 0), word) == []


def test_functions_that_ask_the_cpu_themselves_are_not_judged() -> None:
    code = [CodeSection(".text", 0, struct.pack("<2I", 0xB8E00020, 0xB8E00020))]
    named = [NamedFunction(0, 4, "__aarch64_ldadd4_acq_rel"), NamedFunction(4, 8, "mine")]
    functions = NamedFunctions(named)
    (finding,) = arm_instructions_above(BASELINE, code, functions, ["__aarch64_*"])
    assert "mine at 0x4" in finding
    assert "1 such" in finding


def test_the_names_of_definitions_are_understood() -> None:
    assert [parse_version(name) for name in ("armv8.0", "armv9.2")] == [(8, 0), (9, 2)]
