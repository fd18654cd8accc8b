"""What METADATA requires is compared with a conda package's dependencies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.variants.conda_files import SITE, draft
from unit.variants.test_conda_checks import failed
from unit.variants.tiny_project import DIST_INFO, TinyRelease
from variantwheel.conda_package import CondaPackage
from variantwheel.conda_requirements import requirement_faults
from variantwheel.conda_variants import parse_build

METADATA = f"{SITE}/{DIST_INFO}/METADATA"
BUILD = parse_build("nompi_cpu_py311h0123456_150")


def faults(requirement: str, *depends: str) -> list[str]:
    data = f"Metadata-Version: 2.2\nName: x\nRequires-Dist: {requirement}\n\ntext".encode()
    index = {"depends": list(depends), "subdir": "linux-aarch64"}
    package = CondaPackage(Path("x.conda"), index, {}, {}, None, {METADATA: data})
    return list(requirement_faults(package, BUILD))


@pytest.mark.parametrize(
    ("requirement", "dependency"),
    [
        ("Cloud_Pickle", "cloud-pickle"),
        ("cloud.pickle>=2", "cloud_pickle >=1"),
        ("numpy (>=1.2)", "numpy"),
        ("numpy[x]~=2.0", "numpy 2.* *_0"),
        ("numpy @ https://example.org/numpy.whl", "numpy[version='>=2']"),
    ],
)
def test_names_are_compared_in_their_normal_form(requirement: str, dependency: str) -> None:
    assert faults(requirement, "python", dependency) == []
    (told,) = faults(requirement, "python")
    assert "which METADATA requires" in told


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("python_version >= '3.11'", True),
        ("python_version < '3.11'", False),
        ("python_full_version >= '3.11'", True),
        ("sys_platform == 'linux' and platform_machine == 'aarch64'", True),
        ("sys_platform == 'win32' or platform_machine == 'x86_64'", False),
        ("implementation_name == 'pypy'", False),
        ("extra == 'fancy'", False),
    ],
)
def test_markers_are_of_the_packages_own_machine_and_python(marker: str, *, holds: bool) -> None:
    assert bool(faults(f"numpy; {marker}")) is holds
    assert faults(f"numpy; {marker}", "numpy") == []


def test_without_a_python_requirements_with_markers_are_left_out() -> None:
    data = b"Name: x\nRequires-Dist: a; python_version > '3'\nRequires-Dist: b\n"
    package = CondaPackage(Path("x.conda"), {}, {}, {}, None, {METADATA: data})
    assert list(requirement_faults(package, None)) == ["lacks 'b', which METADATA requires"]


@given(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1))
def test_any_requirement_is_compared_or_told(text: str) -> None:
    assert all("METADATA requires" in told for told in faults(text, "numpy"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Version: 1.0", "Version: 9.9", "METADATA is of tiny-variants 9.9, the name of"),
        ("Name: tiny-variants", "Name: other", "METADATA is of other 1.0, the name of"),
        (None, "", "METADATA is of nothing, the name of tiny-variants 1.0"),
        (None, "\x00\x01", "METADATA is of nothing, the name of tiny-variants 1.0"),
    ],
)
def test_the_distribution_is_of_the_packages_name_and_version(
    tiny_release: TinyRelease, tmp_path: Path, old: str | None, new: str, words: str
) -> None:
    package = draft(tiny_release.wheel("null"), "cpu")
    before = package.files[METADATA].decode()
    package.files[METADATA] = (new if old is None else before.replace(old, new, 1)).encode()
    told = failed(tiny_release, package.write(tmp_path))
    assert words in told["metadata"]


def test_no_other_mpi_is_required(tiny_release: TinyRelease, tmp_path: Path) -> None:
    package = draft(tiny_release.wheel("null"), "cpu")
    package.depends.append("openmpi >=5")
    told = failed(tiny_release, package.write(tmp_path))
    assert told == {"dependencies": "depends on 'openmpi >=5', although it is built for nompi"}
