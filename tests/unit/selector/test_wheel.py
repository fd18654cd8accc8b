"""Handing a wheel over: its plain name, the decision inside, RECORD right, the bytes stable."""

import csv
import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from unit.selector.test_manifest import DECISION
from unit.selector.tiny_release import TinyRelease
from variantwheel_selector.archive_tail import record_hash
from variantwheel_selector.decision_reading import parse_decision
from variantwheel_selector.errors import PayloadError
from variantwheel_selector.wheel import add_decision, hand_over

PLAIN = "tiny_native-1.0-py3-none-any.whl"


def _hand_over(release: TinyRelease, folder: Path) -> Path:
    wheel = release.wheels[-1]
    path = release.root / "payload" / wheel.filename
    filename = hand_over(path, wheel, release.manifest, ("py3-none-any",), DECISION, folder)
    assert filename == PLAIN
    return folder / filename


def _check_record(path: Path, dist_info: str) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        rows = list(csv.reader(io.StringIO(archive.read(f"{dist_info}/RECORD").decode())))
        assert sorted(row[0] for row in rows) == sorted(names)
        assert len(set(names)) == len(names)
        for name, digest, size in rows:
            content = archive.read(name)
            if not name.endswith("/RECORD"):
                assert digest == "sha256=" + record_hash(hashlib.sha256(content).digest())
                assert size == str(len(content))
    return names


@pytest.mark.parametrize("record_last", [True, False])
def test_the_decision_is_added_and_everything_else_stays(
    release: TinyRelease, tmp_path: Path, *, record_last: bool
) -> None:
    release.wheels = [wheel for wheel in release.wheels if wheel.label != "x86_64_v3"]
    before = release.add("x86_64_v3", record_last=record_last)
    after = _hand_over(release, tmp_path / "out")
    names = _check_record(after, release.dist_info)
    assert f"{release.dist_info}/variant-decision.json" in names
    with zipfile.ZipFile(before) as old, zipfile.ZipFile(after) as new:
        decision = new.read(f"{release.dist_info}/variant-decision.json")
        assert parse_decision(decision) == DECISION
        for name in set(old.namelist()) - {f"{release.dist_info}/RECORD"}:
            assert new.read(name) == old.read(name)
        assert len(new.namelist()) == len(old.namelist()) + 1
    assert [path.name for path in after.parent.iterdir()] == [PLAIN]


def test_the_same_input_gives_the_same_bytes(release: TinyRelease, tmp_path: Path) -> None:
    first, second = (_hand_over(release, tmp_path / folder) for folder in "ab")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("damage", ["changed", "longer", "missing", "folder"])
def test_nothing_is_left_of_a_wheel_that_is_not_the_promised_one(
    release: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """And it is never opened as an archive."""
    path = release.root / "payload" / release.wheels[-1].filename
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "changed":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "longer":
        path.write_bytes(content + b"x")
    elif damage == "folder":
        path.mkdir()
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(PayloadError, match=release.wheels[-1].filename):
        _hand_over(release, tmp_path / "out")
    assert list(tmp_path.glob("out/*")) == []


def test_no_bytes_of_the_old_record_are_left(release: TinyRelease, tmp_path: Path) -> None:
    """Readers that stream an archive must not meet a member that the directory lacks."""
    data = _hand_over(release, tmp_path).read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert data.count(b"PK\x03\x04") == len(archive.namelist())


def test_a_decision_that_is_there_already_is_replaced(release: TinyRelease, tmp_path: Path) -> None:
    path = _hand_over(release, tmp_path)
    once = path.read_bytes()
    add_decision(path, DECISION)
    names = _check_record(path, release.dist_info)
    assert names.count(f"{release.dist_info}/variant-decision.json") == 1
    with zipfile.ZipFile(io.BytesIO(once)) as archive:
        assert sorted(archive.namelist()) == sorted(names)
