"""The disassembly finds instructions above a level, and nothing in code of that level."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from unit.variants.tiny_project import compile_library
from variantwheel.errors import WheelFormatError
from variantwheel.instruction_levels import BEYOND_ALL_LEVELS, instructions_above
from variantwheel.named_functions import NamedFunction, NamedFunctions
from variantwheel.native_library import CodeSection, parse_native_library

SAXPY = """\
void saxpy(float* y, const float* x, long n) { for (long i = 0; i < n; ++i) y[i] += 2.0f * x[i]; }
int ones(unsigned long x) { return __builtin_popcountl(x); }
int lowest(unsigned long x) { return x ? __builtin_ctzl(x) : 64; }
int highest(unsigned long x) { return x ? __builtin_clzl(x) : 64; }
"""

STATIC_AFTER_EXPORTED = """\
static float sum(const float* x) __attribute__((target("avx2"), noinline));
float exported(const float* x) { return sum(x) + 1; }
static float sum(const float* x) { float s = 0; for (int i = 0; i < 64; i++) s += x[i]; return s; }
"""

HAND_WRITTEN = """\
__asm__(".text; .globl exported; .type exported, @function; exported:"
        ".cfi_startproc; vaddps %ymm0, %ymm0, %ymm0; ret; .cfi_endproc");
__attribute__((target("avx2"), noinline)) static int next(int x) {
  __asm__("vpaddd %ymm0, %ymm0, %ymm0");
  return x;
}
int (*table[])(int) = {next};
"""

UNKNOWN = "a feature that the disassembler does not know"

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="no AVX2 code is made on this kind of machine"
)


@pytest.mark.parametrize(
    ("code", "needed", "feature"),
    [
        ("0f1f4000 90 f30f1efa f390 0fa2", 1, ""),  # long nop, nop, endbr64, pause, cpuid
        ("f3480fbcc7 0f01d0", 1, ""),  # rep bsf (tzcnt), xgetbv: fine everywhere
        ("f3480fb8c7", 2, "POPCNT"),
        ("660f3a0bc004", 2, "SSE4_1"),
        ("f3480fbdc7", 3, "LZCNT"),  # rep bsr is another result on an old CPU
        ("c5fc58c1", 3, "AVX"),  # vaddps ymm
        ("c5fdfec1", 3, "AVX2"),
        ("c4e27d98c1", 3, "FMA"),
        ("c4e27d13c0", 3, "F16C"),
        ("62f17c4858c1", 4, "AVX512F"),
        ("660f38dcc1", BEYOND_ALL_LEVELS, "AES"),
        ("d51050", BEYOND_ALL_LEVELS, UNKNOWN),  # push r16, of APX
        ("66d5100150", BEYOND_ALL_LEVELS, UNKNOWN),
        ("62f4fc1801cb", BEYOND_ALL_LEVELS, UNKNOWN),  # add rax, rbx, rcx, of APX
        ("62f5754858c2", BEYOND_ALL_LEVELS, UNKNOWN),  # vaddbf16 zmm, of AVX10.2
        ("060e1f 2f61 ffff", 1, ""),  # constants between functions
        (b"\x06SHA1 block transform by b\x06".hex(), 1, ""),
    ],
)
def test_each_instruction_has_its_level(code: str, needed: int, feature: str) -> None:
    section = CodeSection(".text", 0x1000, bytes.fromhex(code.replace(" ", "")))
    for level in range(1, 5):
        functions = NamedFunctions([NamedFunction(0x1000, 0x1100, "f")])
        found = instructions_above(level, [section], functions)
        if level >= needed:
            assert found == []
        else:
            assert found[0].level == needed
            assert feature in found[0].features
            assert found[0].place.startswith("f at 0x10")


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        (("-march=x86-64",), 1),
        (("-march=x86-64-v2",), 2),
        (("-march=x86-64-v3",), 3),
        (("-march=x86-64-v4", "-mprefer-vector-width=512"), 4),
    ],
)
def test_compiled_code_needs_its_level_and_no_more(
    tmp_path: Path, flags: tuple[str, ...], level: int
) -> None:
    library = parse_native_library("x.so", compile_library(tmp_path, SAXPY, "-O3", *flags))
    assert instructions_above(level, library.code, library.functions) == []
    if level > 1:
        below = instructions_above(level - 1, library.code, library.functions)
        assert {finding.level for finding in below} == {level}


def test_a_damaged_library_is_told(tmp_path: Path) -> None:
    data = compile_library(tmp_path, SAXPY, "-O3")
    assert parse_native_library("x.so", data).functions
    for length in (8, 100, len(data) - 1):
        with pytest.raises(WheelFormatError, match=r"^x\.so: a damaged ELF file: "):
            parse_native_library("x.so", data[:length])


def test_a_library_that_hides_its_code_is_told(tmp_path: Path) -> None:
    data = bytearray(compile_library(tmp_path, SAXPY, "-O3"))
    struct.pack_into("<Q", data, 0x28, 0)  # e_shoff
    struct.pack_into("<3H", data, 0x3A, 0, 0, 0)  # e_shentsize, e_shnum, e_shstrndx
    with pytest.raises(WheelFormatError, match="no section headers"):
        parse_native_library("x.so", bytes(data))


def test_notes_of_other_owners_are_passed_over(tmp_path: Path) -> None:
    other = r"""
__asm__(".pushsection .note.other, \"a\", @note; .long 6, 4, 5; .asciz \"Other\"; .balign 4;"
        ".long 0; .popsection");
"""
    data = compile_library(tmp_path, SAXPY + other, "-O3", "-Wl,-z,x86-64-v3")
    assert parse_native_library("x.so", data).isa_needed == ("x86_64_v3",)


def test_the_finding_names_the_function_and_counts(tmp_path: Path) -> None:
    library = parse_native_library("x.so", compile_library(tmp_path, SAXPY, "-O3", "-mavx2"))
    found = instructions_above(1, library.code, library.functions)
    assert any(item.place.startswith("saxpy at 0x") and item.count > 1 for item in found)
    assert "needs AVX (x86_64_v3)" in " ".join(map(str, found))


def test_a_stripped_librarys_static_function_is_no_part_of_the_exported_one_before_it(
    tmp_path: Path,
) -> None:
    flags = ("-O3", "-ffast-math", "-fno-toplevel-reorder", "-Wl,--strip-all")
    library = parse_native_library("x.so", compile_library(tmp_path, STATIC_AFTER_EXPORTED, *flags))
    found = instructions_above(1, library.code, library.functions, ["exported"])
    assert any("AVX" in item.features for item in found)
    assert all(item.place.startswith(".text at 0x") for item in found)
    assert all(item.place.endswith(" (no named function)") for item in found)


def test_hand_written_code_reaches_to_the_end_of_its_unwind_entry(tmp_path: Path) -> None:
    flags = ("-fno-toplevel-reorder", "-Wl,--strip-all")
    library = parse_native_library("x.so", compile_library(tmp_path, HAND_WRITTEN, *flags))
    places = {
        item.text: item.place for item in instructions_above(1, library.code, library.functions)
    }
    assert places["vaddps ymm0,ymm0,ymm0"].startswith("exported at 0x")
    assert places["vpaddd ymm0,ymm0,ymm0"].endswith(" (no named function)")
    (left,) = instructions_above(1, library.code, library.functions, ["exported"])
    assert (left.text, left.count) == ("vpaddd ymm0,ymm0,ymm0", 1)


def test_an_exemption_is_of_all_names_of_a_function_and_of_what_it_holds() -> None:
    code = [CodeSection(".text", 0, bytes.fromhex("c5fdfec1") * 6)]
    functions = NamedFunctions(
        [
            NamedFunction(0, 16, "around"),
            NamedFunction(4, 8, "alias_of_inner"),
            NamedFunction(4, 8, "inner"),
            NamedFunction(16, 20, "after"),
        ]
    )
    counts = {
        name: sum(item.count for item in instructions_above(1, code, functions, [name]))
        for name in ("around", "alias_of_inner", "inner", "after", "none")
    }
    assert counts == {"around": 2, "alias_of_inner": 5, "inner": 5, "after": 5, "none": 6}
