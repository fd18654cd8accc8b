"""What a conda package holds beside Python's files: links, permissions, scripts, libraries."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.variants.checking import BASELINE, SUM
from unit.variants.conda_files import SITE, CondaDraft, draft
from unit.variants.test_conda_checks import failed
from unit.variants.tiny_project import DIST_INFO, TinyRelease, compile_library
from variantwheel.conda_file_checks import check_paths
from variantwheel.conda_package import CondaPackage, read_conda_package

SCRIPT = "bin/tiny"
ENTRY_POINTS = f"{SITE}/{DIST_INFO}/entry_points.txt"


@pytest.fixture
def package(tiny_release: TinyRelease) -> CondaDraft:
    return draft(tiny_release.wheel("x86_64_v3"), "x86_64_v3")


def test_hard_links_are_files(
    tiny_release: TinyRelease, tmp_path: Path, package: CondaDraft
) -> None:
    module, copy = f"{SITE}/tiny_variants/__init__.py", f"{SITE}/tiny_variants/again.py"
    package.links[copy] = tarfile.LNKTYPE, module
    file = package.write(tmp_path)
    assert failed(tiny_release, file) == {}
    read = read_conda_package(file)
    assert (read.files[copy], read.modes[copy]) == (read.files[module], 0o644)


@pytest.mark.parametrize(
    ("kind", "target", "words"),
    [
        (tarfile.LNKTYPE, "lib/none.py", "a hard link to lib/none.py, which is no file that comes"),
        (tarfile.FIFOTYPE, "", "neither a file nor a link nor a folder"),
        (tarfile.CHRTYPE, "", "neither a file nor a link nor a folder"),
    ],
)
def test_what_cannot_be_unpacked_is_told(
    tiny_release: TinyRelease,
    tmp_path: Path,
    package: CondaDraft,
    kind: bytes,
    target: str,
    words: str,
) -> None:
    package.links["lib/odd"] = kind, target
    assert f"lib/odd: {words}" in failed(tiny_release, package.write(tmp_path))["archive"]


@pytest.mark.parametrize(
    ("target", "leads_out"),
    [
        ("/etc/passwd", True),
        ("../../passwd", True),
        ("../lib/../../passwd", True),
        ("../lib/libtiny.so.1", False),
        ("libtiny.so.1", False),
        ("..", False),
    ],
)
def test_links_stay_in_the_environment(
    tiny_release: TinyRelease, tmp_path: Path, package: CondaDraft, target: str, *, leads_out: bool
) -> None:
    package.links["lib/libtiny.so"] = tarfile.SYMTYPE, target
    words = f"lib/libtiny.so: a link to {target}, which lies outside of the environment"
    assert failed(tiny_release, package.write(tmp_path)) == ({"paths": words} if leads_out else {})


_NAMES = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4)
_STEPS = st.lists(st.sampled_from(["a", "b", ".", "..", "..", ".."]))


@given(_NAMES, _STEPS)
def test_a_link_leads_out_where_its_steps_do(folders: list[str], steps: list[str]) -> None:
    depth = lowest = len(folders) - 1
    for step in steps:
        depth += {"..": -1, ".": 0}.get(step, 1)
        lowest = min(lowest, depth)
    path, target = "/".join(folders), "/".join(steps)
    package = CondaPackage(Path("x.conda"), {}, {}, {path: {}}, None, {}, {path: target})
    told = any("lies outside" in fact for fact in check_paths(package).facts)
    # Nothing is known of what lies outside, so that no way leads back.
    assert told is (lowest < 0)


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_no_file_runs_as_its_owner(
    tiny_release: TinyRelease, tmp_path: Path, package: CondaDraft, mode: int
) -> None:
    package.files[SCRIPT], package.modes[SCRIPT] = b"#!/bin/sh\n", mode
    told = failed(tiny_release, package.write(tmp_path))
    assert told == {"paths": f"{SCRIPT}: would run as its owner or group, by its mode {mode:o}"}


def test_declared_scripts_are_there_and_can_be_executed(
    tiny_release: TinyRelease, tmp_path: Path, package: CondaDraft
) -> None:
    package.files[ENTRY_POINTS] = b"[console_scripts]\ntiny = tiny_variants:main\n[x]\ny = z:a\n"
    told = failed(tiny_release, package.write(tmp_path))
    assert told == {"scripts": f"{SCRIPT} is missing, which entry_points.txt declares"}
    package.files[SCRIPT] = b"#!/bin/sh\n"
    told = failed(tiny_release, package.write(tmp_path))
    assert told == {"scripts": f"{SCRIPT}: not executable, by its mode 644"}
    package.modes[SCRIPT] = 0o755
    assert failed(tiny_release, package.write(tmp_path)) == {}
    package.files[ENTRY_POINTS] = b"tiny"
    assert "entry_points.txt: " in failed(tiny_release, package.write(tmp_path))["scripts"]


@pytest.mark.parametrize("path", ["lib/libextra.so", "lib/python3.12/site-packages/x/libextra.so"])
def test_libraries_outside_of_the_pythons_folder_are_disassembled(
    tiny_release: TinyRelease, tmp_path: Path, package: CondaDraft, path: str
) -> None:
    package.files[path] = package.files[f"{SITE}/{BASELINE}"]
    assert failed(tiny_release, package.write(tmp_path)) == {}
    package.files[path] = compile_library(tmp_path, SUM, "-O3", "-ffast-math", "-mavx2")
    told = failed(tiny_release, package.write(tmp_path))
    assert set(told) == {"instructions"}
    assert f"$PREFIX/{path}: " in told["instructions"]


def test_members_may_be_named_from_the_folder_that_was_packed(
    tiny_release: TinyRelease, tmp_path: Path, package: CondaDraft
) -> None:
    plain = read_conda_package(package.write(tmp_path / "a"))
    package.tar_prefix = "./"
    file = package.write(tmp_path / "b")
    assert failed(tiny_release, file) == {}
    assert read_conda_package(file).files == plain.files
