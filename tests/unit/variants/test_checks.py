"""The checks pass a good release, and each planted defect fails the check that looks for it."""

from __future__ import annotations

import json
import platform
import random
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unit.variants.checking import BASELINE, SUM, V3, failed_checks
from unit.variants.device_files import cubin
from unit.variants.tiny_project import (
    DIST_INFO,
    TinyRelease,
    compile_library,
    copy_project,
    respoil,
    tamper,
    variantwheel,
)
from variantwheel.checks.environment import python_of
from variantwheel.checks.execution import Emulator
from variantwheel.checks.report import Result
from variantwheel.checks.suite import CheckOptions, check_wheels
from variantwheel.project import read_project
from variantwheel.wheel_archive import WheelArchive, read_wheel
from variantwheel_selector.errors import UsageError

EVERY_CHECK = {
    "label", "record", "metadata", "same metadata", "installable", "licence", "tags", "size",
    "machine", "needed libraries", "search paths", "exports", "level folders", "ISA notes",
    "instructions", "device code", "build paths", "execution", "emulation", "reproducible",
}  # fmt: skip


def test_a_good_release_passes_every_check_and_runs(tiny_release: TinyRelease) -> None:
    wheels = [tiny_release.wheel("null"), tiny_release.wheel("x86_64_v3")]
    done = variantwheel(
        "check", *wheels, "--project", tiny_release.project, "--json", "--run", "--emulate",
        "--rebuild", "--no-isolation",
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert [wheel["passed"] for wheel in document["wheels"]] == [True, True]
    results = {c["name"]: c["result"] for wheel in document["wheels"] for c in wheel["checks"]}
    assert results.pop("plug-ins") == "skipped"  # the project declares none
    assert set(results.values()) == {"ok"}
    assert set(results) >= EVERY_CHECK - {"plug-ins"}


def test_the_table_says_what_failed_and_the_exit_code_is_one(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    spoiled = respoil(tiny_release.wheel("null"), tmp_path, {f"{DIST_INFO}/licenses/LICENSE": None})
    done = variantwheel(
        "check", tiny_release.wheel("x86_64_v3"), spoiled,
        "--project", tiny_release.project, expect=1,
    )  # fmt: skip
    assert "FAILED   licence" in done.stdout
    assert "2 wheels checked, 1 failed" in done.stdout


def _v3_code_in_the_baseline(release: TinyRelease, tmp: Path) -> Path:
    planted = compile_library(tmp, SUM, "-O3", "-ffast-math", "-mavx2")
    return respoil(release.wheel("x86_64_v3"), tmp, {BASELINE: planted})


def _v4_code_in_v3(release: TinyRelease, tmp: Path) -> Path:
    flags = ("-O3", "-ffast-math", "-march=x86-64-v4", "-mprefer-vector-width=512")
    planted = compile_library(tmp, SUM, *flags, "-Wl,-z,x86-64-v3")
    return respoil(release.wheel("x86_64_v3"), tmp, {V3: planted})


def _v3_code_outside_of_level_folders(release: TinyRelease, tmp: Path) -> Path:
    planted = compile_library(tmp, SUM, "-O3", "-ffast-math", "-mavx2")
    return respoil(release.wheel("null"), tmp, {"tiny_variants/extra.so": planted})


def _no_isa_note(release: TinyRelease, tmp: Path) -> Path:
    planted = compile_library(tmp, SUM, "-march=x86-64-v3")
    return respoil(release.wheel("x86_64_v3"), tmp, {V3: planted})


def _own_level_missing(release: TinyRelease, tmp: Path) -> Path:
    return respoil(release.wheel("x86_64_v3"), tmp, {V3: None})


def _another_label(release: TinyRelease, tmp: Path) -> Path:
    wheel = release.wheel("x86_64_v3")
    return respoil(wheel, tmp, {}, wheel.name.replace("-x86_64_v3.whl", "-null.whl"))


def _unknown_label(release: TinyRelease, tmp: Path) -> Path:
    wheel = release.wheel("x86_64_v3")
    return respoil(wheel, tmp, {}, wheel.name.replace("-x86_64_v3.whl", "-cu12.whl"))


def _no_label(release: TinyRelease, tmp: Path) -> Path:
    wheel = release.wheel("null")
    return respoil(wheel, tmp, {}, wheel.name.replace("-null.whl", ".whl"))


def _changed_file(release: TinyRelease, tmp: Path) -> Path:
    return tamper(release.wheel("null"), tmp, {"tiny_variants/__init__.py": b"import os\n"})


def _no_licence(release: TinyRelease, tmp: Path) -> Path:
    return respoil(release.wheel("null"), tmp, {f"{DIST_INFO}/licenses/LICENSE": None})


def _tag_in_wheel_file(release: TinyRelease, tmp: Path) -> Path:
    other = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
    return respoil(release.wheel("null"), tmp, {f"{DIST_INFO}/WHEEL": other})


def _needs_newer_glibc(release: TinyRelease, tmp: Path) -> Path:
    # memcpy has the version GLIBC_2.14, newer than the 2.5 that the tag promises.
    source = "#include <string.h>\nvoid c(char* a, const char* b, long n) { memcpy(a, b, n); }\n"
    planted = compile_library(tmp, source)
    return respoil(release.wheel("null"), tmp, {BASELINE: planted})


def _asks_nothing_of_the_system(release: TinyRelease, tmp: Path) -> Path:
    wheel = release.wheel("null")
    platform = read_wheel(wheel).name.platform
    return _for_tag(wheel, tmp, platform, "linux_x86_64")


def _foreign_library(release: TinyRelease, tmp: Path) -> Path:
    (tmp / "libforeign.so").write_bytes(compile_library(tmp, "int foreign(void) { return 1; }\n"))
    source = "int foreign(void);\nint tiny_level(void) { return foreign(); }\n"
    planted = compile_library(tmp, source, "-L.", f"-Wl,-rpath,{tmp}", "-l:libforeign.so")
    return respoil(release.wheel("null"), tmp, {BASELINE: planted})


def _leaks_the_runtime(release: TinyRelease, tmp: Path) -> Path:
    source = "#include <vector>\nint f(int n) { std::vector<int> v; "
    source += "for (int i = 0; i < n; ++i) v.push_back(i); return v.back(); }\n"
    planted = compile_library(tmp, source, "-xc++", "-O0")
    return respoil(release.wheel("null"), tmp, {BASELINE: planted})


def _source_path(release: TinyRelease, tmp: Path) -> Path:
    source = "#include <stdio.h>\nvoid f(void) { puts(__FILE__); }\n"
    planted = compile_library(tmp, source)
    return respoil(release.wheel("null"), tmp, {BASELINE: planted})


def _too_large(release: TinyRelease, tmp: Path) -> Path:
    noise = random.Random(1).randbytes(50 * 1024)  # noqa: S311 - only has to be incompressible
    return respoil(release.wheel("null"), tmp, {"tiny_variants/noise.bin": noise})


def _device_code_that_nobody_declared(release: TinyRelease, tmp: Path) -> Path:
    planted = {"tiny_variants/kernels.cubin": cubin(90)}
    return respoil(release.wheel("null"), tmp, planted)


def _no_baseline_for_older_cpus(release: TinyRelease, tmp: Path) -> Path:
    path = "tiny_variants/__init__.py"
    text = read_wheel(release.wheel("x86_64_v3")).files[path].replace(b'"baseline"', b'"x86_64_v3"')
    return respoil(release.wheel("x86_64_v3"), tmp, {path: text})


def _dynamic_metadata(release: TinyRelease, tmp: Path) -> Path:
    metadata = read_wheel(release.wheel("null")).dist_info_file("METADATA")
    spoiled = metadata.replace(b"Version: 1.0\n", b"Version: 1.0\nDynamic: requires-dist\n")
    return respoil(release.wheel("null"), tmp, {f"{DIST_INFO}/METADATA": spoiled})


def _old_metadata(release: TinyRelease, tmp: Path) -> Path:
    metadata = b"Metadata-Version: 2.1\nName: tiny-variants\nVersion: 1.0\n"
    return respoil(release.wheel("null"), tmp, {f"{DIST_INFO}/METADATA": metadata})


def _for_tag(wheel: Path, folder: Path, old: str, new: str) -> Path:
    """The wheel with another part of its tag, in its name and inside."""
    inside = read_wheel(wheel).dist_info_file("WHEEL")
    for tag in old.split("."):
        inside = inside.replace(tag.encode(), new.encode())
    changes = {f"{DIST_INFO}/WHEEL": b"\n".join(dict.fromkeys(inside.split(b"\n")))}
    return respoil(wheel, folder, changes, wheel.name.replace(old, new))


def _another_machine(release: TinyRelease, tmp: Path) -> Path:
    wheel = release.wheel("null")
    name = wheel.name.replace("x86_64-null", "aarch64-null")
    return respoil(wheel, tmp, {}, name)


@pytest.mark.parametrize(
    ("plant", "check", "told"),
    [
        (_v3_code_in_the_baseline, "instructions", f"{BASELINE}: `v"),
        (_v4_code_in_v3, "instructions", "AVX512"),
        (_v3_code_outside_of_level_folders, "instructions", "tiny_variants/extra.so"),
        (_no_isa_note, "ISA notes", "link with -Wl,-z,x86-64-v3"),
        (_own_level_missing, "level folders", "no library lies in a folder 'x86_64_v3'"),
        (_another_label, "label", "variant.json is of x86_64_v3, the name says null"),
        (_unknown_label, "label", "label 'cu12' has no definition"),
        (_no_label, "label", "a plain wheel"),
        (_changed_file, "record", "tiny_variants/__init__.py: its bytes are not those"),
        (_no_licence, "licence", "no licence file in .dist-info"),
        (_tag_in_wheel_file, "tags", "WHEEL says py3-none-linux_x86_64, the name"),
        (_needs_newer_glibc, "tags", "auditwheel finds manylinux_2_17_x86_64: GLIBC_2.14"),
        (_asks_nothing_of_the_system, "tags", "linux_x86_64 asks nothing of the system"),
        (_asks_nothing_of_the_system, "tags", "before `variantwheel label`"),
        (_foreign_library, "needed libraries", "libforeign.so is needed"),
        (_foreign_library, "search paths", f"{BASELINE}: RPATH or RUNPATH"),
        (_leaks_the_runtime, "exports", "symbols of the C++ runtime"),
        (_source_path, "build paths", "planted.c; compile with -ffile-prefix-map"),
        (_too_large, "size", "the budget is 40 KiB"),
        (_device_code_that_nobody_declared, "device code", "null.toml does not declare"),
        (_no_baseline_for_older_cpus, "emulation", "on Nehalem: python -c"),
        (_dynamic_metadata, "metadata", "Dynamic: requires-dist"),
        (_old_metadata, "metadata", "Metadata-Version is 2.1, 2.2 or newer is needed"),
        (_another_machine, "machine", "for x86_64, the tag says aarch64"),
    ],
)
def test_a_planted_defect_is_found(
    tiny_release: TinyRelease,
    tmp_path: Path,
    plant: Callable[[TinyRelease, Path], Path],
    check: str,
    told: str,
) -> None:
    options = CheckOptions(emulate=check == "emulation")
    failed = failed_checks(tiny_release, plant(tiny_release, tmp_path), options=options)
    assert told in failed[check]


@pytest.mark.parametrize(
    ("home", "data", "found"),
    [
        ("/root", b"mount it at /root/.cache/tiny", False),
        ("/root", b"\x7f\0/root/.cache/tiny", True),
        ("/home/somebody", b"written to /home/somebody/.cache/tiny", True),
        ("/home/somebody", b"written to /mnt/home/somebody/.cache/tiny", False),
    ],
)
def test_the_home_of_who_built_it_is_found(
    tiny_release: TinyRelease,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    home: str,
    data: bytes,
    found: bool,
) -> None:
    monkeypatch.setenv("HOME", home)
    wheel = respoil(tiny_release.wheel("null"), tmp_path, {"tiny_variants/notes": data})
    told = failed_checks(tiny_release, wheel).get("build paths", "")
    assert (told == f"tiny_variants/notes: holds the path {home}") is found
    assert bool(told) is found


def _replaced(name: str, old: bytes, new: bytes) -> Callable[[WheelArchive], dict[str, bytes]]:
    def changes(archive: WheelArchive) -> dict[str, bytes]:
        data = archive.dist_info_file(name)
        assert old in data
        return {f"{DIST_INFO}/{name}": data.replace(old, new)}

    return changes


def _added(path: str, data: bytes) -> Callable[[WheelArchive], dict[str, bytes]]:
    return lambda _: {path: data}


_SCRIPTS = f"{DIST_INFO}/entry_points.txt"
_REQUIRES = b"Requires-Python: >=3.10\n"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_replaced("WHEEL", b"Wheel-Version: 1.0", b"Wheel-Version: 2.0"), "is 2.0, installers"),
        (_replaced("WHEEL", b"Wheel-Version: 1.0\n", b""), "Wheel-Version is missing"),
        (_replaced("METADATA", b"Summary: ", b"Summary: \xe9"), "METADATA: not UTF-8"),
        (_replaced("METADATA", _REQUIRES, _REQUIRES + b"Requires-Dist: a b\n"), "'a b' is no req"),
        (_replaced("METADATA", b">=3.10", b">=3.10 or so"), "Requires-Python: Invalid"),
        (_added(_SCRIPTS, b"[console_scripts]\na = b c\n"), "a = 'b c' is not MODULE:FUNCTION"),
        (_added(_SCRIPTS, b"[console_scripts]\n../a = b:c\n"), "'../a' cannot be the name"),
        (_added(_SCRIPTS, b"a = b:c\n"), "no section headers"),
        (_added("tiny_variants-1.0.data/bin/a", b""), "data/bin/a: is in none of the folders"),
        (_added("tiny_variants-1.0.data/a", b""), "data/a: is in none of the folders"),
    ],
)
def test_what_installers_refuse_is_found(
    tiny_release: TinyRelease,
    tmp_path: Path,
    change: Callable[[WheelArchive], dict[str, bytes]],
    told: str,
) -> None:
    wheel = tiny_release.wheel("null")
    spoiled = respoil(wheel, tmp_path, change(read_wheel(wheel)))
    assert told in failed_checks(tiny_release, spoiled)["installable"]


def test_what_installers_take_is_not_refused(tiny_release: TinyRelease, tmp_path: Path) -> None:
    scripts = b"[console_scripts]\na-b.c = d.e:f.g [x]\nA = b : c\n[other.group]\n../x = y z\n"
    files = {_SCRIPTS: scripts, "tiny_variants-1.0.data/scripts/a": b"#!python\n"}
    spoiled = respoil(tiny_release.wheel("null"), tmp_path, files)
    assert failed_checks(tiny_release, spoiled) == {}


def test_variants_with_different_dependencies_are_found(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    metadata = read_wheel(tiny_release.wheel("null")).dist_info_file("METADATA")
    spoiled = metadata.replace(b"Version: 1.0\n", b"Version: 1.0\nRequires-Dist: nccl\n")
    other = respoil(tiny_release.wheel("null"), tmp_path, {f"{DIST_INFO}/METADATA": spoiled})
    failed = failed_checks(tiny_release, tiny_release.wheel("x86_64_v3"), other)
    assert set(failed) == {"same metadata"}
    assert "Requires-Dist: nccl" in failed["same metadata"]


def test_a_definition_that_changed_since_the_build_is_found(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    project = copy_project(tmp_path)
    definition = project / "variants" / "x86_64_v3.toml"
    text = definition.read_text(encoding="utf-8").replace('["v3"]', '["v4"]')
    definition.write_text(text, encoding="utf-8")
    failed = failed_checks(TinyRelease(project, tmp_path), tiny_release.wheel("x86_64_v3"))
    assert "says x86_64 :: level :: v3, x86_64_v3.toml x86_64 :: level :: v4" in failed["label"]


def test_what_is_no_wheel_is_told_beside_the_others(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    broken = tmp_path / tiny_release.wheel("null").name
    broken.write_bytes(tiny_release.wheel("null").read_bytes()[:1000])
    failed = failed_checks(tiny_release, tiny_release.wheel("x86_64_v3"), broken)
    assert "not a readable wheel" in failed["archive"]


def test_an_empty_line_in_record_is_found(tiny_release: TinyRelease, tmp_path: Path) -> None:
    wheel = tiny_release.wheel("null")
    record = read_wheel(wheel).dist_info_file("RECORD")
    failed = failed_checks(
        tiny_release, tamper(wheel, tmp_path, {f"{DIST_INFO}/RECORD": record + b"\n"})
    )
    assert "is empty, which pip cannot read" in failed["record"]


def test_checks_that_were_asked_for_and_not_made_are_counted(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    foreign = _another_machine(tiny_release, tmp_path)
    words = ("check", foreign, "--project", tiny_release.project)
    done = variantwheel(*words, "--run", "--emulate", expect=1)
    counted = "; asked for and not made: execution of 1, emulation of 1"
    assert done.stdout.endswith(f"1 wheels checked, 1 failed{counted}\n")
    assert variantwheel(*words, expect=1).stdout.endswith("1 wheels checked, 1 failed\n")


THIS = f"cp3{sys.version_info.minor}"
ANOTHER = f"cp3{sys.version_info.minor + 1}"


def test_wheels_of_other_cpythons_are_neither_run_nor_built_again(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    null = tiny_release.wheel("null")
    own, other = (_for_tag(null, tmp_path, "py3-none", f"{abi}-{abi}") for abi in (THIS, ANOTHER))
    shared = ("--project", tiny_release.project)
    slow = ("--run", "--must-run", "--emulate", "--rebuild", "--no-isolation")
    done = variantwheel("check", other, *shared, *slow, expect=1)
    why = f"for {ANOTHER}-{ANOTHER}, which CPython {platform.python_version()} does not install"
    for check in ("execution   ", "emulation   ", "reproducible"):
        assert f"  skipped  {check}      {why}\n" in done.stdout
    assert "none of the wheels was run, and --must-run asks for one" in done.stderr
    counted = "asked for and not made: execution of 1, emulation of 1, reproducible of 1"
    assert done.stdout.endswith(f"1 wheels checked, 0 failed; {counted}\n")
    done = variantwheel("check", own, other, *shared, *slow[:3])
    assert "  ok       execution " in done.stdout
    assert done.stdout.endswith("not made: execution of 1, emulation of 1\n")
    variantwheel("check", other, *shared, "--run")
    done = variantwheel("check", own, *shared, "--must-run", expect=2)
    assert "--must-run goes with --run" in done.stderr


def test_a_wheel_of_the_stable_abi_is_run_on_newer_cpythons(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    stable = _for_tag(tiny_release.wheel("null"), tmp_path, "py3-none", "cp310-abi3")
    done = variantwheel(
        "check", stable, "--project", tiny_release.project, "--run", "--must-run",
    )  # fmt: skip
    assert "  ok       execution " in done.stdout


def test_a_system_runs_the_wheels_of_its_own_python(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    python = tmp_path / "system/usr/bin/python3.11"
    python.parent.mkdir(parents=True)
    python.touch()
    null = tiny_release.wheel("null")
    name = null.name.replace("py3-none", "cp312-cp312").replace("x86_64-", "aarch64-")
    wheel = Path(shutil.copy(null, tmp_path / name))
    options = CheckOptions(emulate=True, emulator=Emulator(system=tmp_path / "system"))
    (report,) = check_wheels([wheel], read_project(tiny_release.project), options)
    finding = next(item for item in report.findings if item.check == "emulation")
    told = "for cp312-cp312, which CPython 3.11 does not install"
    assert (finding.result, finding.facts) == (Result.SKIPPED, (told,))


def test_a_wheel_for_any_machine_passes_as_null_and_as_nothing_else(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    (project / "src/tiny_variants/__init__.py").write_text(
        "def total(values):\n    return float(sum(values))\n", encoding="utf-8"
    )
    for file in (project / "variants").iterdir():
        text = file.read_text(encoding="utf-8")
        pure = 'config-settings = { "wheel.cmake" = "false", "wheel.platlib" = "false" }'
        file.write_text(re.sub("config-settings = .*", pure, text), encoding="utf-8")
    folder, shared = tmp_path / "release", ("--project", project)
    variantwheel("build", "--all", "-o", folder, *shared, "--no-isolation")
    null, v3 = (folder / f"tiny_variants-1.0-py3-none-any-{x}.whl" for x in ("null", "x86_64_v3"))
    slow = ("--run", "--must-run", "--emulate", "--rebuild", "--no-isolation")
    done = variantwheel("check", null, *shared, *slow)
    for check in ("execution", "emulation", "reproducible"):
        assert re.search(f"^  ok  +{check} ", done.stdout, re.MULTILINE), done.stdout
    done = variantwheel("check", v3, *shared, expect=1)
    assert "a wheel for any machine can only be the variant 'null'" in done.stdout
    release = TinyRelease(project, folder)
    library = compile_library(tmp_path, "int f(void) { return 1; }\n")
    native = respoil(null, tmp_path / "native", {"tiny_variants/native.so": library})
    assert "the tag says any" in failed_checks(release, native)["machine"]


def test_a_command_that_fails_is_shown(tiny_release: TinyRelease, tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    file = project / "pyproject.toml"
    text = file.read_text(encoding="utf-8").replace("== 3.0", "== 4.0")
    file.write_text(text, encoding="utf-8")
    wheel = shutil.copy(tiny_release.wheel("null"), tmp_path)
    done = variantwheel("check", wheel, "--project", project, "--run", expect=1)
    assert "FAILED   execution" in done.stdout
    assert "AssertionError" in done.stdout


def test_pips_settings_of_another_place_hold_for_no_run(
    tiny_release: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("check", tiny_release.wheel("null"), "--project", tiny_release.project, "--run")
    for name, value in (("TARGET", "there"), ("PREFIX", "there"), ("DRY_RUN", "1"), ("USER", "1")):
        with monkeypatch.context() as patch:
            patch.setenv(f"PIP_{name}", value.replace("there", str(tmp_path / "there")))
            assert "  ok       execution " in variantwheel(*words).stdout
    assert not (tmp_path / "there").exists()
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[install]\ntarget = {tmp_path / 'there'}\n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    told = variantwheel(*words, expect=1).stdout
    assert "pip install ended well, and the wheel is not there; pip's settings send" in told


def test_only_files_are_checked(tiny_release: TinyRelease, tmp_path: Path) -> None:
    folder = variantwheel("check", tmp_path, "--project", tiny_release.project, expect=2)
    assert f"{tmp_path}: a folder; name the files in it: {tmp_path}/*.whl" in folder.stderr
    nowhere = tmp_path / "nowhere.whl"
    missing = variantwheel("check", nowhere, "--project", tiny_release.project, expect=2)
    assert "nowhere.whl: no such file" in missing.stderr


def test_an_emulator_that_would_not_be_used_is_refused(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    words = ("check", tiny_release.wheel("null"), "--project", tiny_release.project)
    for option in ("--emulator", "--system"):
        done = variantwheel(*words, option, tmp_path, expect=2)
        assert f"{option} goes with --emulate" in done.stderr
    nameless = tmp_path / "emulator"
    nameless.touch()
    for file in (nameless, tmp_path / "qemu-x86_64"):
        done = variantwheel(*words, "--emulate", "--emulator", file, expect=2)
        assert f"--emulator {file}: no file of the name qemu-MACHINE" in done.stderr


def test_an_emulator_is_used_for_the_machine_of_its_name(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    words = ("check", tiny_release.wheel("null"), "--project", tiny_release.project, "--emulate")
    for name in ("qemu-x86_64", "qemu-x86_64-static"):
        (tmp_path / name).write_text("#!/bin/sh\necho I am $0\nexit 7\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
        done = variantwheel(*words, "--emulator", tmp_path / name, expect=1)
        assert f"I am {tmp_path / name}" in done.stdout


def test_the_python_of_another_system_is_its_newest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"--system {tmp_path}: holds no usr/bin/python3"):
        python_of(tmp_path)
    folder = tmp_path / "usr/bin"
    folder.mkdir(parents=True)
    for name in ("python3.9", "python3.10", "python3.10-config", "python3"):
        (folder / name).touch()
    assert python_of(tmp_path) == folder / "python3.10"
