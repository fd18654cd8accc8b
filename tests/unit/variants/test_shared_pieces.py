"""Wheels in one file that holds equal pieces once: each comes back as it was, whatever it is."""

from __future__ import annotations

import io
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel.shared_pieces import SharedPieces, share_pieces

NOISE = bytes(range(256)) * 16


class _Stream(io.RawIOBase):
    """A file that cannot be sought in, so that sizes follow the data (data descriptors)."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(cast("bytes", data))
        return len(cast("bytes", data))


def archive(members: dict[str, bytes], form: str = "") -> bytes:
    """Pack members as wheels are packed, or in an unusual form."""
    plain, stream = io.BytesIO(), _Stream()
    file = cast("BinaryIO", stream if form == "descriptors" else plain)
    if form == "prefix":
        plain.write(b"#!/bin/sh\n")
    with zipfile.ZipFile(file, "a" if form == "prefix" else "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2020, 2, 2, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            with packed.open(info, "w", force_zip64=form == "zip64") as member:
                member.write(content)
        if form == "comment":
            packed.comment = b"a comment"
    data = stream.data if form == "descriptors" else plain.getvalue()
    if form == "gap":
        # Bytes that belong to no member, before the directory.
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            start = packed.start_dir
        end = data[start:-6] + (start + 5).to_bytes(4, "little") + data[-2:]
        data = data[:start] + b"stray" + end
    return data


FORMS = st.sampled_from(["", "", "", "", "prefix", "descriptors", "zip64", "comment", "gap"])
CONTENTS = st.sampled_from([b"", b"a" * 3000, NOISE, NOISE[:-1], b"x = 1\n"])
NAMES = st.sampled_from([f"demo/{letter}.py" for letter in "abcdef"] + ["demo.dist-info/RECORD"])
WHEELS = st.one_of(
    st.builds(archive, st.dictionaries(NAMES, CONTENTS), FORMS),
    st.binary(min_size=1, max_size=50),
)


def packed(folder: Path, wheels: list[bytes]) -> tuple[SharedPieces, bytes]:
    paths = [folder / f"{number}.whl" for number in range(len(wheels))]
    for path, data in zip(paths, wheels, strict=True):
        path.write_bytes(data)
    shared, file = share_pieces(paths), io.BytesIO()
    shared.write(file)
    assert share_pieces(paths) == shared
    return shared, file.getvalue()


def taken(file: bytes, ranges: tuple[tuple[int, int], ...]) -> bytes:
    return b"".join(file[offset : offset + length] for offset, length in ranges)


@given(st.lists(WHEELS, max_size=5))
def test_each_wheel_comes_back(wheels: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shared, file = packed(Path(folder), wheels)
    assert [taken(file, ranges) for ranges in shared.ranges] == wheels
    assert len(file) == shared.size <= sum(map(len, wheels))
    for ranges in shared.ranges:
        assert all(length > 0 for _, length in ranges)
        assert all(sum(before) != after[0] for before, after in pairwise(ranges))
    # The same wheels again add nothing.
    with tempfile.TemporaryDirectory() as folder:
        again, _ = packed(Path(folder), wheels * 2)
    assert again.ranges == shared.ranges * 2


@pytest.mark.parametrize("form", ["", "prefix", "descriptors", "zip64", "comment"])
def test_what_wheels_share_stands_once(tmp_path: Path, form: str) -> None:
    noise = NOISE * 8
    members = {"demo/__init__.py": b"", "demo/big.so": noise, "demo/data.bin": noise[::-1]}
    own = [{**members, "demo/label.py": label} for label in (b"one", b"another")]
    first, second = (archive(item, form) for item in own)
    shared, file = packed(tmp_path, [first, second])
    size = sum(len(archive({name: data})) for name, data in members.items())
    assert len(file) < len(first) + len(second) - size + 3 * 150
    # What is alike and adjoins is one range; the directories are apart, and come first.
    assert [len(ranges) for ranges in shared.ranges] == [2, 3]
    assert shared.ranges[0][-1][0] == 0


def test_wheels_that_share_nothing_are_as_large_as_before(tmp_path: Path) -> None:
    wheels = [archive({f"demo/{letter}.py": NOISE}) for letter in "abc"]
    shared, file = packed(tmp_path, wheels)
    assert len(file) == sum(map(len, wheels))
    shared, file = packed(tmp_path, wheels[:1])
    assert len(file) == len(wheels[0])
    assert [len(ranges) for ranges in shared.ranges] == [2]


def test_a_wheel_of_too_many_pieces_is_kept_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("variantwheel.shared_pieces.MOST_RANGES", 3)
    letters = "abcdefgh"
    first = archive({f"{letter}.py": b"1" for letter in letters})
    second = archive({f"{x}.py": str(number % 2).encode() for number, x in enumerate(letters)})
    shared, file = packed(tmp_path, [first, second, first])
    assert [len(ranges) for ranges in shared.ranges] == [2, 1, 2]
    assert [taken(file, ranges) for ranges in shared.ranges] == [first, second, first]
