"""`variantwheel unpack`: the released wheels of an sdist, packed or not, embedded or by hash."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # has no annotations
import pytest

from unit.selector.tiny_release import TinyRelease
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.variants_json import parse_variants_json

VARIANTS_JSON = "tiny_native-1.0-variants.json"


def unpack(sdist: Path, folder: Path, *words: str) -> int:
    return run_commandline(["unpack", str(sdist), "-o", str(folder), *words])


@pytest.fixture
def whole(release: TinyRelease) -> dict[str, bytes]:
    """The wheels by their names."""
    return {wheel.filename: release.content(wheel) for wheel in release.wheels}


@pytest.mark.parametrize("form", ["packed", "folder", "packed whole", "folder whole"])
def test_all_wheels_as_they_were_released(
    release: TinyRelease,
    whole: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    if "whole" not in form:
        release.share()
    sdist = release.archive(tmp_path / "dist") if "packed" in form else release.finish()
    out = tmp_path / "out"
    assert unpack(sdist, out) == 0
    printed = capsys.readouterr().out
    assert f"tiny-native 1.0: 3 wheels and {VARIANTS_JSON} in {out}" in printed
    assert all(f"  {wheel.filename}  sha256 {wheel.sha256}" in printed for wheel in release.wheels)
    found = {path.name: path.read_bytes() for path in out.iterdir()}
    assert parse_variants_json(found.pop(VARIANTS_JSON)) == release.info
    assert found == whole


def test_single_labels_and_json(
    release: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release.share()
    sdist, out = release.archive(tmp_path / "dist"), tmp_path / "out"
    assert unpack(sdist, out, "--label", "null", "--label", "x86_64_v4", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    schema = Path(__file__).parents[3] / "docs/schemas/unpack.schema.json"
    jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(told)
    names = [wheel["filename"] for wheel in told["wheels"]]
    assert [wheel["label"] for wheel in told["wheels"]] == ["null", "x86_64_v4"]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, VARIANTS_JSON])
    assert unpack(sdist, out, "--label", "x86_64_v5") == 2
    printed = capsys.readouterr().err
    assert "has no wheel with the label 'x86_64_v5', but with null, x86_64_v3, " in printed
    assert " - did you mean" in printed


def test_wheels_that_the_sdist_names_by_hash(
    release: TinyRelease,
    whole: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    links = release.publish(tmp_path / "site")
    sdist, out = release.archive(tmp_path / "dist"), tmp_path / "out"
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert unpack(sdist, out) == 1
    assert "VARIANTWHEEL_WHEEL_DIR" in capsys.readouterr().err
    monkeypatch.setenv("VARIANTWHEEL_WHEEL_DIR", str(links))
    assert unpack(sdist, out) == 0
    assert {name: (out / name).read_bytes() for name in whole} == whole


def test_a_changed_wheel_is_not_written(
    release: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release.share()
    release.flip(release.wheels[0], 5)
    sdist, out = release.archive(tmp_path / "dist"), tmp_path / "out"
    assert unpack(sdist, out) == 1
    printed = capsys.readouterr().err
    assert "is not the released one" in printed
    assert "Traceback" not in printed
    assert list(out.iterdir()) == []


def test_places_that_are_none(
    release: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release.share()
    sdist = release.archive(tmp_path / "dist")
    (tmp_path / "file").touch()
    assert unpack(sdist, tmp_path / "file") == 2
    assert str(tmp_path / "file") in capsys.readouterr().err
    assert unpack(tmp_path / "file", tmp_path / "out") == 2
    assert "is no selector sdist" in capsys.readouterr().err
    (release.root / "payload/wheels.bin").unlink()
    assert unpack(release.archive(tmp_path / "dist"), tmp_path / "out") == 2
    assert "it holds no payload/wheels.bin" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
