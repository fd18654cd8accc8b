"""Selector and toolkit: a wheel made from the sdist is the one made from the checkout."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

REPOSITORY = Path(__file__).parents[3]


def _build(folder: str, output: Path, *flags: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *flags, "-o", str(output)]
    subprocess.run(
        [*command, str(REPOSITORY / folder)], check=True, capture_output=True, timeout=120
    )


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("folder", ["selector", "variants"])
def test_the_sdist_stands_alone(folder: str, tmp_path: Path) -> None:
    _build(folder, tmp_path / "through-sdist")
    _build(folder, tmp_path / "direct", "--wheel")
    (wheel,) = (tmp_path / "direct").glob("*.whl")
    contents = _contents(wheel)
    assert _contents(tmp_path / "through-sdist" / wheel.name) == contents
    dist_info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    metadata = Metadata.from_email(contents[f"{dist_info}/METADATA"])
    assert str(metadata.version) == (REPOSITORY / "VERSION").read_text(encoding="utf-8").strip()
    licence = (REPOSITORY / "LICENSE").read_bytes()
    assert contents[f"{dist_info}/licenses/LICENSE"] == licence
    (sdist,) = (tmp_path / "through-sdist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert [member.name for member in archive if not member.isfile()] == []
