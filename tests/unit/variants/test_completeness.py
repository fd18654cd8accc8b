"""Releases that lack a label for a machine or a CPython which another label is there for."""

from __future__ import annotations

import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from unit.variants.tiny_project import TinyRelease, copy_project, variantwheel
from variantwheel.completeness import absent_altogether, missing_variants, without_fallback
from variantwheel.project import Project, Pythons, read_project
from variantwheel.selector_sdist import Payload

LINUX = "manylinux_2_17_x86_64"


@pytest.fixture(scope="module")
def project(tiny_release: TinyRelease) -> Project:
    """Its variants are `null`, for AArch64 too, and `x86_64_v3`."""
    return read_project(tiny_release.project)


def _payload(folder: Path, project: Project, *tags: str) -> Payload:
    """A release of empty wheels; words after a tag are files of modules."""
    wheels = []
    for words in tags:
        tag, *modules = words.split()
        wheels.append(folder / f"tiny_variants-1.0-{tag}.whl")
        with zipfile.ZipFile(wheels[-1], "w") as archive:
            for abi in modules:
                archive.writestr(f"tiny/_m.cpython-{abi[2:]}-x86_64-linux-gnu.so", b"")
    info = project.variants_info(item.label for item in project.definitions)
    return Payload("tiny-variants", "1.0", tuple(wheels), b"", info)


@pytest.mark.parametrize(
    ("tags", "missing"),
    [
        ([f"py3-none-{LINUX}-null", f"py3-none-{LINUX}-x86_64_v3"], []),
        ([f"py3-none-{LINUX}-null"], ["x86_64_v3 for x86_64"]),
        (
            # One job of a build matrix failed.
            [f"cp3{n}-cp3{n}-{LINUX}-{label}" for n in (12, 13) for label in ("null", "x86_64_v3")]
            + [f"cp39-cp39-{LINUX}-x86_64_v3", f"cp314-cp314t-{LINUX}-null"],
            ["null for x86_64 on cp39", "x86_64_v3 for x86_64 on cp314t"],
        ),
        ([f"cp310-abi3-{LINUX}-null", f"cp312-abi3-{LINUX}-x86_64_v3"],
         ["x86_64_v3 for x86_64 on cp310"]),
        ([f"cp310-abi3-{LINUX}-null", f"cp313-cp313-{LINUX}-x86_64_v3"],
         ["x86_64_v3 for x86_64 on cp310"]),
        (["py3-none-any-null", f"cp312-cp312-{LINUX}-x86_64_v3"], []),
        (
            [f"py3-none-{LINUX}-null cp312 cp313", f"py3-none-{LINUX}-x86_64_v3 cp313"],
            ["x86_64_v3 for x86_64 on cp312"],
        ),
        (
            # What one machine has is no promise for another.
            [f"cp312-cp312-{LINUX}-null", f"cp312-cp312-{LINUX}-x86_64_v3",
             "cp313-cp313-manylinux_2_17_aarch64-null"],
            [],
        ),
    ],
)  # fmt: skip
def test_each_label_serves_the_pythons_that_any_label_serves(
    project: Project, tmp_path: Path, tags: list[str], missing: list[str]
) -> None:
    assert missing_variants(_payload(tmp_path, project, *tags), project) == missing


def test_what_nothing_is_there_for_is_said(project: Project, tmp_path: Path) -> None:
    payload = _payload(tmp_path, project, f"py3-none-{LINUX}-null cp312")
    declared = replace(project, pythons=Pythons(("3.12", "3.13"), ("3.14",), "pythons"))
    assert absent_altogether(payload, declared) == [
        "no wheel for aarch64; defined for it: null",
        "no wheel has a module for CPython 3.13, which the project declares",
    ]
    anywhere = _payload(tmp_path, project, "py3-none-any-null")
    assert absent_altogether(anywhere, project) == [
        "no wheel for x86_64 but for any machine; defined for it: x86_64_v3"
    ]
    whole = _payload(tmp_path, project, "py3-none-any-null", f"py3-none-{LINUX}-x86_64_v3")
    assert absent_altogether(whole, project) == []


@pytest.mark.parametrize(
    ("tag", "absent"),
    [
        ("cp312-cp312", ["3.13", "3.14t"]),
        ("cp313-cp313", ["3.12", "3.14t"]),
        ("cp311-abi3", ["3.14t"]),
        ("py3-none", []),
    ],
)
def test_a_cpython_that_builds_and_has_no_wheel_is_named(
    tiny_release: TinyRelease, tmp_path: Path, tag: str, absent: list[str]
) -> None:
    folder = copy_project(tmp_path)
    for label in ("null", "x86_64_v3"):
        wheel = tiny_release.wheel(label)
        shutil.copy(wheel, tmp_path / wheel.name.replace("py3-none", tag))
    words = ("sdist", tmp_path, "--dry-run", "--project", folder)
    assert "no wheel is for CPython" not in variantwheel(*words).stderr
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write('[tool.variantwheel.ci]\ninterpreters = ["cp312", "cp313", "cp314t"]\n')
    told = variantwheel(*words).stderr
    assert re.findall(r"warning: no wheel is for CPython (\S+): cp3", told) == absent


@pytest.mark.parametrize(
    ("tags", "lacking"),
    [
        ([f"py3-none-{LINUX}-null", f"py3-none-{LINUX}-x86_64_v3"], []),
        (["py3-none-any-null", f"cp312-cp312-{LINUX}-x86_64_v3"], []),
        ([f"cp312-cp312-{LINUX}-x86_64_v3", "py3-none-manylinux_2_17_aarch64-null"], ["x86_64"]),
        (
            [f"cp312-cp312-{LINUX}-null"]
            + [f"cp3{minor}-cp3{minor}-{LINUX}-x86_64_v3" for minor in (12, 13)],
            ["x86_64 on cp313"],
        ),
    ],
)
def test_machines_and_pythons_without_the_variant_that_runs_everywhere_are_named(
    project: Project, tmp_path: Path, tags: list[str], lacking: list[str]
) -> None:
    found = without_fallback(_payload(tmp_path, project, *tags))
    assert [line.partition(": ")[0] for line in found] == [
        f"no variant 'null' for {where}" for where in lacking
    ]


def test_a_project_without_null_is_warned(tiny_release: TinyRelease, tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    shutil.copy(tiny_release.wheel("x86_64_v3"), tmp_path)
    assert "'null'" not in variantwheel("matrix", "--project", folder).stderr
    (folder / "variants/null.toml").unlink()
    done = variantwheel("matrix", "--project", folder)
    assert "warning: no variant 'null' is defined: users whose hardware" in done.stderr
    for words in (["--dry-run"], ["-o", str(tmp_path), "--no-source"]):
        done = variantwheel("sdist", tmp_path, *words, "--project", folder)
        assert "warning: no variant 'null' for x86_64: users whose hardware" in done.stderr


def test_the_verb_refuses_and_warns(tiny_release: TinyRelease, tmp_path: Path) -> None:
    shared = ("--dry-run", "--project", tiny_release.project)
    done = variantwheel("sdist", tiny_release.folder, *shared)
    assert "warning: no wheel for aarch64" in done.stderr
    null, v3 = tiny_release.wheel("null"), tiny_release.wheel("x86_64_v3")
    shutil.copy(v3, tmp_path)
    shutil.copy(null, tmp_path / null.name.replace("py3-none", "cp312-cp312"))
    shutil.copy(v3, tmp_path / v3.name.replace("py3-none", "cp313-cp313"))
    done = variantwheel("sdist", tmp_path, *shared, expect=1)
    assert "null for x86_64 on cp313\n" in done.stderr
