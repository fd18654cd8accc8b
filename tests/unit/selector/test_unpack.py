"""`variantwheel unpack`: the released wheels of an sdist, packed or not, embedded or by hash."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

import jsonschema  # type: ignore[import-untyped]  # has no annotations
import pytest

from unit.selector.tiny_release import TinyRelease
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.variants_json import parse_variants_json
from variantwheel_selector.wheel_file import write_beside

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


def test_links_that_others_put_into_the_folder_lead_nowhere(
    release: TinyRelease, whole: dict[str, bytes], tmp_path: Path
) -> None:
    release.share()
    sdist, out, victim = release.archive(tmp_path / "dist"), tmp_path / "out", tmp_path / "victim"
    victim.write_text("secret")
    victim.chmod(0o600)
    out.mkdir()
    for name in (*whole, VARIANTS_JSON):
        (out / name).symlink_to(victim)
        (out / f".{name}.{os.getpid()}.part").symlink_to(victim)
    assert unpack(sdist, out) == 0
    assert victim.read_text() == "secret"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert {name: (out / name).read_bytes() for name in whole} == whole
    assert not any((out / name).is_symlink() for name in (*whole, VARIANTS_JSON))


def test_a_file_is_its_owners_until_it_is_complete_and_has_another_name_each_time(
    tmp_path: Path,
) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.touch(mode=0o600)
    names: set[str] = set()

    def write(file: BinaryIO) -> bool:
        (beside,) = out.iterdir()
        names.add(beside.name)
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
        file.write(b"content")
        # What one who may write into the folder would do.
        beside.unlink()
        beside.symlink_to(victim)
        return True

    for _ in range(2):
        assert write_beside(str(out), "a.whl", write)
        (out / "a.whl").unlink()
    assert len(names) == 2
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("version", "words"),
    [("dir/../../victim/x", "version: .* does not match"), ("1.0", "lists no wheels")],
)
def test_nothing_is_written_for_a_manifest_without_wheels(
    release: TinyRelease,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    version: str,
    words: str,
) -> None:
    manifest = release.finish() / "payload/manifest.json"
    document = json.loads(manifest.read_text()) | {"wheels": [], "version": version}
    manifest.write_text(json.dumps(document))
    out = tmp_path / "out"
    (out / "tiny_native-dir").mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    assert unpack(release.root, out) == 2
    assert re.search(words, capsys.readouterr().err)
    assert not any((tmp_path / "victim").iterdir())
    assert [path.name for path in out.iterdir()] == ["tiny_native-dir"]
