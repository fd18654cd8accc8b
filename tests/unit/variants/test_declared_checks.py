"""Checks that follow what a project's settings and definitions declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.variants.checking import BASELINE, SUM, V3, failed_checks, project_with
from unit.variants.device_files import cubin, ptx
from unit.variants.tiny_project import (
    TinyRelease,
    compile_library,
    respoil,
    variantwheel,
)


def test_a_build_that_differs_each_time_is_found(tmp_path: Path) -> None:
    chance = 'string(RANDOM LENGTH 9 chance)\nadd_compile_definitions(CHANCE="${chance}")\n'
    project = project_with(
        tmp_path,
        {
            "CMakeLists.txt": ("foreach(level", f"{chance}foreach(level"),
            "native/tiny.c": ("return TINY_LEVEL", "return TINY_LEVEL CHANCE"),
        },
    )
    shared = ("--project", project, "--no-isolation")
    variantwheel("build", "null", "-o", tmp_path / "release", *shared)
    (wheel,) = (tmp_path / "release").glob("*.whl")
    done = variantwheel("check", wheel, "--rebuild", *shared, expect=1)
    assert f"FAILED   reproducible      {BASELINE}: differs from byte" in done.stdout


def test_declared_architectures_need_code_and_no_other_is_there(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    wheel = tiny_release.wheel("x86_64_v3")
    definition = 'level = ["v3"]\nnvidia.sm_arch = ["80_real", "90_real", "90_virtual"]'
    project = project_with(
        tmp_path,
        {
            "variants/x86_64_v3.toml": ('level = ["v3"]', definition),
            "pyproject.toml": ('["x86_64"]', '["nvidia", "x86_64"]'),
        },
    )
    there = {"tiny_variants/a.bin": b"\0" * 64 + cubin(80) + ptx(90), "tiny_variants/b": cubin(70)}
    faults = failed_checks(TinyRelease(project, tmp_path), respoil(wheel, tmp_path / "a", there))
    missing, extra = faults["device code"].splitlines()
    assert missing.startswith(
        "no code for 90_real, which x86_64_v3.toml declares as nvidia.sm_arch"
    )
    assert missing.endswith("there is 70_real, 80_real, 90_virtual")
    assert extra.startswith("tiny_variants/b: machine code for 70_real, which x86_64_v3.toml does")
    right = {"tiny_variants/a.bin": cubin(80) + cubin(90) + ptx(90)}
    faults = failed_checks(TinyRelease(project, tmp_path), respoil(wheel, tmp_path / "b", right))
    assert "device code" not in faults


def test_functions_that_the_code_dispatches_itself_may_be_of_any_level(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    planted = compile_library(tmp_path, SUM, "-O3", "-ffast-math", "-mavx2")
    wheel = respoil(tiny_release.wheel("null"), tmp_path / "a", {BASELINE: planted})
    for pattern, found in (("s", False), ("s_*", True)):
        line = f'max-exports = 4\ndispatched-functions = ["{pattern}"]'
        project = project_with(tmp_path / pattern, {"pyproject.toml": ("max-exports = 4", line)})
        assert ("instructions" in failed_checks(TinyRelease(project, tmp_path), wheel)) is found


def test_levels_above_the_variants_own_have_to_be_declared(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    flags = ("-O3", "-ffast-math", "-march=x86-64-v4", "-mprefer-vector-width=512")
    higher = compile_library(tmp_path, SUM, *flags, "-Wl,-z,x86-64-v4")
    wheel = tiny_release.wheel("x86_64_v3")
    both = respoil(wheel, tmp_path / "a", {V3.replace("x86_64_v3", "x86_64_v4"): higher})
    told = failed_checks(tiny_release, both)
    assert set(told) == {"level folders"}
    assert "'x86_64_v4' is above the declared level 'x86_64_v3'" in told["level folders"]

    line = 'isa = "x86_64_v3"\ndispatched-levels = ["x86_64_v4"]'
    changes = {"variants/x86_64_v3.toml": ('isa = "x86_64_v3"', line)}
    release = TinyRelease(project_with(tmp_path, changes), tmp_path)
    assert failed_checks(release, both) == {}
    told = failed_checks(release, wheel)
    assert set(told) == {"level folders"}
    assert (
        "no library lies in a folder 'x86_64_v4', which dispatched-levels" in told["level folders"]
    )


def test_a_symbol_that_is_not_declared_is_found(tiny_release: TinyRelease, tmp_path: Path) -> None:
    module, plugin = "tiny_variants/m.abi3.so", "tiny_variants/plugin.so"
    sources = {
        BASELINE: "int tiny_sum(void) { return 1; } int scratch(void) { return 2; }",
        module: "int PyInit_m(void) { return 1; }",
        plugin: "int own(void) { return 1; }",
    }
    planted = {path: compile_library(tmp_path, text) for path, text in sources.items()}
    told = []
    wheel = respoil(tiny_release.wheel("null"), tmp_path / "a", planted)
    for patterns, found in (('"tiny_*"', True), ('"tiny_*", "scratch"', False), ("", True)):
        line = f'max-exports = 4\nexports = [{patterns}]\nplugins = {{ "{plugin}" = ["own"] }}'
        folder = tmp_path / str(len(patterns))
        project = project_with(folder, {"pyproject.toml": ("max-exports = 4", line)})
        faults = failed_checks(TinyRelease(project, tmp_path), wheel)
        assert ("exports" in faults) is found
        told += faults.get("exports", "").splitlines()
    first, last = told
    assert first.startswith(f"{BASELINE}: exports scratch, which [tool.variantwheel.check] exports")
    assert last.startswith(f"{BASELINE}: exports scratch, tiny_sum, which")


def test_declared_plug_ins_are_there_with_their_symbols_alone(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    plugin = "tiny_variants/plugin.so"
    line = f'max-exports = 4\nplugins = {{ "{plugin}" = ["f"] }}'
    project = project_with(tmp_path, {"pyproject.toml": ("max-exports = 4", line)})
    release, wheel = TinyRelease(project, tmp_path), tiny_release.wheel("null")
    assert f"{plugin} is missing" in failed_checks(release, wheel)["plug-ins"]
    right = compile_library(tmp_path, "int f(void) { return 1; }")
    assert failed_checks(release, respoil(wheel, tmp_path / "a", {plugin: right})) == {}
    wrong = compile_library(tmp_path, "int f(void) { return 1; } int g(void) { return 2; }")
    faults = failed_checks(release, respoil(wheel, tmp_path / "b", {plugin: wrong}))
    assert f"{plugin} exports f, g; declared is f" in faults["plug-ins"]


def test_declared_libraries_are_there(tiny_release: TinyRelease, tmp_path: Path) -> None:
    line = f'max-exports = 4\nlibraries = ["{BASELINE}"]'
    project = project_with(tmp_path, {"pyproject.toml": ("max-exports = 4", line)})
    release, wheel = TinyRelease(project, tmp_path), tiny_release.wheel("x86_64_v3")
    assert failed_checks(release, wheel) == {}
    told = failed_checks(release, respoil(wheel, tmp_path / "a", {BASELINE: None}))
    assert set(told) == {"libraries"}
    assert f"{BASELINE} is missing ([tool.variantwheel.check] libraries" in told["libraries"]


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        (BASELINE, b"", "is empty"),
        (BASELINE, b"not an ELF file", "begins with b'not an E'"),
        ("tiny_variants/libm.so", b"INPUT(-lm)\n", "begins with b'INPUT(-l'"),
        ("tiny_variants/libm.so.6.1", b"GROUP(x)", "begins with b'GROUP(x)'"),
    ],
)
def test_what_is_named_like_a_library_is_one(
    tiny_release: TinyRelease, tmp_path: Path, path: str, data: bytes, words: str
) -> None:
    wheel = respoil(tiny_release.wheel("x86_64_v3"), tmp_path / "a", {path: data})
    told = failed_checks(tiny_release, wheel)
    assert told["libraries"].startswith(f"{path}: named like a shared library, and no ELF file")
    assert words in told["libraries"]


def test_other_files_are_no_libraries(tiny_release: TinyRelease, tmp_path: Path) -> None:
    names = ("x.so.py", "so.1", ".so", "so", "x.so.")
    files: dict[str, bytes | None] = {f"tiny_variants/{name}": b"x" for name in names}
    files["tiny_variants/gpu.so"] = cubin(80)
    wheel = respoil(tiny_release.wheel("null"), tmp_path / "a", files)
    assert set(failed_checks(tiny_release, wheel)) == {"device code"}


def test_a_wheel_for_one_machine_has_native_code(tiny_release: TinyRelease, tmp_path: Path) -> None:
    wheel = tiny_release.wheel("null")
    told = failed_checks(tiny_release, respoil(wheel, tmp_path / "a", {BASELINE: None}))
    assert "no native code at all, although it is for x86_64 alone" in told["libraries"]
    for_gpus = respoil(wheel, tmp_path / "b", {BASELINE: None, "tiny_variants/k": ptx(90)})
    assert "libraries" not in failed_checks(tiny_release, for_gpus)


def test_a_wheel_may_be_of_one_level_as_a_whole(tiny_release: TinyRelease, tmp_path: Path) -> None:
    line = "max-exports = 4\nwhole-wheel = true"
    project = project_with(tmp_path, {"pyproject.toml": ("max-exports = 4", line)})
    release = TinyRelease(project, tmp_path)
    flags = ("-O3", "-ffast-math", "-march=x86-64-v3")
    right = compile_library(tmp_path, SUM, *flags, "-Wl,-z,x86-64-v3")
    wheel = tiny_release.wheel("x86_64_v3")
    assert failed_checks(release, respoil(wheel, tmp_path / "a", {BASELINE: right})) == {}
    unmarked = compile_library(tmp_path, SUM, *flags)
    faults = failed_checks(release, respoil(wheel, tmp_path / "b", {BASELINE: unmarked}))
    assert "the note says x86_64_v1, the definition x86_64_v3" in faults["ISA notes"]
