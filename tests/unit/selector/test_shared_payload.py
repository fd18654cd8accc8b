"""Wheels whose pieces stand in one file: put together byte for byte, or not at all."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.selector.test_manifest import DECISION
from unit.selector.tiny_release import TinyRelease
from variantwheel_selector.errors import ManifestError, PayloadError
from variantwheel_selector.manifest import (
    MOST_RANGES,
    PayloadWheel,
    parse_manifest,
    render_manifest,
)
from variantwheel_selector.payload import check_wheel, copy_payload, open_payload
from variantwheel_selector.record import replace
from variantwheel_selector.wheel import hand_over
from variantwheel_selector.wheel_file import Pieces, hashed_copy

TAGS = ("py3-none-any",)


def _handed_over(release: TinyRelease, wheel: PayloadWheel, folder: Path) -> bytes:
    path = release.root / wheel.path
    return (folder / hand_over(path, wheel, release.manifest, TAGS, DECISION, folder)).read_bytes()


def test_a_wheel_in_pieces_is_the_wheel(release: TinyRelease, tmp_path: Path) -> None:
    whole = [release.content(wheel) for wheel in release.wheels]
    handed = [_handed_over(release, wheel, tmp_path / wheel.label) for wheel in release.wheels]
    shared = release.share()
    assert parse_manifest(render_manifest(release.manifest)) == release.manifest
    for wheel, data, result in zip(release.wheels, whole, handed, strict=True):
        copy = io.BytesIO()
        copy_payload(shared, wheel, copy)
        assert copy.getvalue() == data
        with open_payload(shared, wheel) as file:
            assert file.read() == data
            check_wheel(file, wheel, release.manifest, TAGS)
        assert _handed_over(release, wheel, tmp_path / wheel.label) == result


@pytest.mark.parametrize("damage", ["changed", "shorter", "missing", "exchanged"])
def test_a_damaged_file_is_never_opened(
    release: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    shared = release.share()
    wheel = release.wheels[-1]
    if damage == "changed":
        release.flip(wheel, 10)
    elif damage == "shorter":
        shared.write_bytes(shared.read_bytes()[:-1])
    elif damage == "exchanged":
        wheel = replace(wheel, ranges=wheel.ranges[::-1])
    else:
        shared.unlink()
    monkeypatch.setattr(zipfile, "ZipFile", None)
    words = "cannot be read" if damage == "missing" else r"is not the released one\n.*sha256"
    with pytest.raises(PayloadError, match=words):
        _handed_over(release, wheel, tmp_path / "out")
    assert list(tmp_path.glob("out/*")) == []


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([[0, 1]], "ranges of .* are 1 bytes, the wheel has"),
        ([[-1, 5]], "5 bytes from -1 on"),
        ([[0, 0]], "0 bytes from 0 on"),
        ([[0, -5]], "-5 bytes from 0 on"),
        ([[10**30, 5]], "the wheels have"),
        ([[0, 10**30]], "the wheels have"),
        ([[0, 1]] * (MOST_RANGES + 1), "there are 1001, 1000 at most"),
        ([[0]], "expected ranges"),
        ([[0, 1, 2]], "expected ranges"),
        ([[0, True]], "expected ranges"),
        ([[0, 1.5]], "expected ranges"),
        ([["0", 1]], "expected ranges"),
        ([None], "expected ranges"),
        ("0-5", "expected ranges"),
        (None, "expected ranges"),
        ({"0": 5}, "expected ranges"),
    ],
)
def test_ranges_that_make_no_wheel_are_refused(
    release: TinyRelease, ranges: object, words: str
) -> None:
    release.share()
    document = json.loads(render_manifest(release.manifest))
    assert document["schema"] == 2
    document["wheels"][0]["ranges"] = ranges
    with pytest.raises(ManifestError, match=words):
        parse_manifest(json.dumps(document))


def test_sizes_that_no_file_has_do_not_widen_the_bounds(release: TinyRelease) -> None:
    release.share()
    document = json.loads(render_manifest(release.manifest))
    document["wheels"][0] |= {"size": 10**40, "ranges": [[10**30, 10**40]]}
    with pytest.raises(ManifestError, match="1099511627776 altogether"):
        parse_manifest(json.dumps(document))


def test_wheels_that_are_elsewhere_have_no_ranges(release: TinyRelease) -> None:
    release.share()
    release.embedded = False
    with pytest.raises(ManifestError, match="the wheels are not in this sdist"):
        _ = release.manifest


def test_an_older_release_is_read_and_a_newer_one_named(release: TinyRelease) -> None:
    document = json.loads(render_manifest(release.manifest))
    assert document["schema"] == 1
    document["schema"] = 2
    assert parse_manifest(json.dumps(document)) == release.manifest
    document["schema"] = 3
    with pytest.raises(ManifestError, match="schema 3 is not known here, only 1 to 2; a newer"):
        parse_manifest(json.dumps(document))


@given(
    st.binary(max_size=60),
    st.lists(st.tuples(st.integers(0, 70), st.integers(1, 70)), max_size=6),
)
def test_pieces_are_read_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, ranges: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces"
    path.write_bytes(data)
    expected = b""
    for offset, length in ranges:
        piece = data[offset : offset + length]
        expected += piece
        if len(piece) < length:
            break  # the file ends before: nothing is read from there on
    copy = io.BytesIO()
    with path.open("rb", buffering=0) as file:
        size, _ = hashed_copy(Pieces(file, ranges).readinto, copy)
    assert copy.getvalue() == expected
    assert size == len(expected)
