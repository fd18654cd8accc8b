"""`variantwheel init`: a project's first definitions, and when it refuses to write them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unit.variants.tiny_project import variantwheel
from variantwheel.project import read_project

PACKAGE = Path(__file__).parents[2] / "packages" / "norm_variants"


def _copy(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "norm")
    return folder / "norm"


def test_what_it_writes_is_a_project_with_variants(tmp_path: Path) -> None:
    folder = _copy(tmp_path)
    before = (folder / "pyproject.toml").read_text(encoding="utf-8")
    (folder / ".gitignore").write_text("*.swp\n/build/", encoding="utf-8")
    variantwheel("init", folder)
    assert (folder / "pyproject.toml").read_text(encoding="utf-8").startswith(before)
    project = read_project(folder)
    assert [item.label for item in project.definitions] == ["null", "x86_64_v3"]
    assert [item.machine for item in project.definition("null").platforms] == ["x86_64", "aarch64"]
    assert project.check.command == ("python", "-c", "import norm_variants")
    ignored = (folder / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert ignored == ["*.swp", "/build/", "/release/", "/site/"]
    done = variantwheel("init", folder, expect=2)
    assert "the project has variants already" in done.stderr
    assert "pyproject.toml:" in done.stderr


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_of_the_user_get_lines_and_stay_as_they_are(tmp_path: Path, end: str) -> None:
    folder = _copy(tmp_path)
    own = tmp_path / "own.toml"
    text = (folder / "pyproject.toml").read_text(encoding="utf-8").rstrip().replace("\n", end)
    own.write_bytes(text.encode())
    own.chmod(0o755)
    (folder / "pyproject.toml").unlink()
    (folder / "pyproject.toml").symlink_to(own)
    (folder / ".gitignore").write_bytes(f"*.sw\xfc{end}".encode("latin-1"))
    variantwheel("init", folder)
    assert (folder / "pyproject.toml").readlink() == own
    assert own.stat().st_mode & 0o777 == 0o755
    after = own.read_bytes()
    assert after.startswith(f"{text}{end}{end}[tool.variantwheel]{end}".encode())
    assert after.count(b"\n") == after.count(end.encode())
    ignored = (folder / ".gitignore").read_bytes()
    assert ignored == f"*.sw\xfc{end}/build/{end}/release/{end}/site/{end}".encode("latin-1")
    read_project(folder)


def test_settings_that_nothing_can_be_added_to_are_told_before_anything_is_written(
    tmp_path: Path,
) -> None:
    folder = _copy(tmp_path)
    settings = folder / "pyproject.toml"
    settings.write_text(f"tool = {{x = 1}}\n{settings.read_text(encoding='utf-8')}")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = variantwheel("init", folder, expect=2)
    assert "because 'tool' is an inline table" in done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_it_overwrites_nothing_and_tells_what_is_missing(tmp_path: Path) -> None:
    folder = _copy(tmp_path)
    (folder / "variants").mkdir()
    (folder / "variants" / "null.toml").write_text("mine", encoding="utf-8")
    settings = (folder / "pyproject.toml").read_bytes()
    assert "null.toml: is there already" in variantwheel("init", folder, expect=2).stderr
    assert (folder / "pyproject.toml").read_bytes() == settings
    assert (folder / "variants" / "null.toml").read_text(encoding="utf-8") == "mine"
    (folder / "pyproject.toml").write_text("[build-system]\n", encoding="utf-8")
    assert "project.name: missing key" in variantwheel("init", folder, expect=2).stderr
    assert "cannot be read" in variantwheel("init", tmp_path / "nowhere", expect=2).stderr
