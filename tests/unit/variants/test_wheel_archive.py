"""Wheel files: read, changed, written reproducibly; RECORD and WHEEL mended."""

from __future__ import annotations

import csv
import io
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path

import deflate
import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel import wheel_writing
from variantwheel.errors import WheelFormatError
from variantwheel.labelling import label_wheel, wheel_file_tags
from variantwheel.wheel_archive import (
    WheelArchive,
    parse_record,
    read_wheel,
    record_digest,
    render_record,
)
from variantwheel.wheel_writing import write_wheel
from variantwheel_selector.archive_tail import read_members
from variantwheel_selector.model import Variant
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo, parse_variants_json
from variantwheel_selector.wheel_name import WheelName

# Control characters are refused in wheels: csv of older Pythons does not quote all of them.
_PATHS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1)
PLAIN = "demo-1.0-py3-none-linux_x86_64.whl"
WHEEL = b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n\n"
INFO = VariantsInfo(
    ("x86_64",),
    {
        "null": Variant("null"),
        "v3": Variant.from_strings("v3", ["x86_64 :: level :: v3"]),
    },
    {"x86_64": ProviderInfo(requires=("p",))},
)


def _archive(**more: bytes) -> WheelArchive:
    files = {
        "demo/__init__.py": b"",
        "demo-1.0.dist-info/WHEEL": WHEEL,
        "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.4\nName: demo\nVersion: 1.0\n",
        **more,
    }
    return WheelArchive(
        WheelName.from_str(PLAIN), "demo-1.0.dist-info", files, frozenset({"demo/__init__.py"})
    )


def _raw_zip(file: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return file


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    archive = _archive(**{'demo/a,b "c".txt': b"comma and quotes"})
    found = read_wheel(write_wheel(archive, tmp_path, 1_700_000_000))
    record = found.files["demo-1.0.dist-info/RECORD"]
    assert {**archive.files, "demo-1.0.dist-info/RECORD": record} == dict(found.files)
    assert found.executables == archive.executables
    # What installers do with RECORD: every path is there once, each with its digest.
    rows = list(csv.reader(io.StringIO(record.decode())))
    assert sorted(row[0] for row in rows) == sorted(found.files)
    assert all(row[1] == f"sha256={record_digest(found.files[row[0]])}" for row in rows if row[1])


def test_the_bytes_depend_on_content_and_time_alone(tmp_path: Path) -> None:
    first = write_wheel(_archive(), tmp_path / "a", 1_700_000_000).read_bytes()
    shuffled = _archive()
    reordered = WheelArchive(
        shuffled.name,
        shuffled.dist_info,
        dict(reversed(list(shuffled.files.items()))),
        shuffled.executables,
    )
    assert write_wheel(reordered, tmp_path / "b", 1_700_000_000).read_bytes() == first
    assert write_wheel(reordered, tmp_path / "c", 1_700_000_002).read_bytes() != first
    with zipfile.ZipFile(tmp_path / "b" / PLAIN) as written:
        assert written.infolist()[-1].filename.endswith("RECORD")
        assert {entry.date_time for entry in written.infolist()} == {(2023, 11, 14, 22, 13, 20)}


@given(st.dictionaries(_PATHS, st.binary(max_size=2000).map(lambda data: data * 9), max_size=4))
def test_the_archive_is_one_of_the_plain_form(files: dict[str, bytes]) -> None:
    paths = {
        f"demo/{name.replace('/', '-').replace(chr(92), '-')}!": data
        for name, data in files.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        file = write_wheel(_archive(**paths), Path(folder), 1_700_000_000)
        with zipfile.ZipFile(file) as archive, file.open("rb") as raw:
            assert archive.testzip() is None
            assert {path: archive.read(path) for path in paths} == paths
            members = read_members(raw)
        assert members is not None
        assert {member.method for member in members} == {zipfile.ZIP_DEFLATED}
        assert [member.name for member in members] == archive.namelist()
        # The local headers, which zipfile does not compare with the directory.
        data = file.read_bytes()
        for member in members:
            fields = struct.unpack_from("<4x2x2xH4xLLL", data, member.offset)
            assert fields == (member.method, member.crc, member.packed, member.size)


def test_members_are_smaller_than_zlib_makes_them(tmp_path: Path) -> None:
    code = b"".join(Path(module.__file__ or "").read_bytes() for module in (zipfile, csv, pytest))
    file = write_wheel(_archive(**{"demo/code.py": code}), tmp_path, 1_700_000_000)
    with zipfile.ZipFile(file) as archive:
        assert archive.getinfo("demo/code.py").compress_size < len(zlib.compress(code, 9)) - 6


def test_what_may_need_zip64_is_written_by_zipfile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"demo/long": bytes(range(256)) * 40}
    sizes: list[int] = []
    compress = deflate.deflate_compress

    def deflate_compress(data: bytes, level: int) -> bytes:
        sizes.append(len(data))
        return bytes(compress(data, level))

    monkeypatch.setattr(deflate, "deflate_compress", deflate_compress)
    monkeypatch.setattr(wheel_writing, "_LONGEST", 256 * 40 - 1)
    file = write_wheel(_archive(**long), tmp_path, 1_700_000_000)
    assert 0 < max(sizes) < 256 * 40
    assert read_wheel(file).files["demo/long"] == long["demo/long"]
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None


def test_a_time_before_zip_files_is_lifted_to_1980(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_wheel(_archive(), tmp_path, 0)) as written:
        assert written.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("path", [
    "../evil", "/evil", "a/../../evil", "a\\b", "a//b", "a\rb", "../evil/", "/evil/", "c:/evil",
])  # fmt: skip
def test_paths_that_lead_out_are_refused(tmp_path: Path, path: str) -> None:
    file = _raw_zip(tmp_path / PLAIN, ["demo-1.0.dist-info/WHEEL", path])
    with pytest.raises(WheelFormatError, match=r"(no plain relative|the unsafe) path"):
        read_wheel(file)


@pytest.mark.parametrize("below", ["demo/x/", "demo/x/y"])
def test_a_path_is_one_thing(tmp_path: Path, below: str) -> None:
    file = _raw_zip(tmp_path / PLAIN, ["demo-1.0.dist-info/WHEEL", "demo/x", below])
    with pytest.raises(WheelFormatError, match=r"'demo/x' (twice|as a file and as a folder)"):
        read_wheel(file)


def test_symbolic_links_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("demo/link")
    link.external_attr = 0o120777 << 16
    file = _raw_zip(tmp_path / PLAIN, ["demo-1.0.dist-info/WHEEL"])
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(WheelFormatError, match="a symbolic link, 'demo/link'"):
        read_wheel(file)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["demo/x"], r"exactly one \.dist-info folder, has none"),
        (["demo-1.0.dist-info/W", "other-1.0.dist-info/W"], r"has demo-.*, other-"),
        (["demo-2.0.dist-info/W"], "belongs to another release"),
    ],
)
def test_a_wheel_has_one_dist_info_folder_of_its_own(
    tmp_path: Path, names: list[str], told: str
) -> None:
    with pytest.raises(WheelFormatError, match=told):
        read_wheel(_raw_zip(tmp_path / PLAIN, names))


def test_no_wheel_at_all_is_told(tmp_path: Path) -> None:
    file = tmp_path / PLAIN
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(WheelFormatError, match="not a readable wheel"):
        read_wheel(file)
    with pytest.raises(WheelFormatError, match="invalid wheel file name"):
        read_wheel(tmp_path / "demo.whl")


def test_a_signed_record_is_not_broken_silently(tmp_path: Path) -> None:
    with pytest.raises(WheelFormatError, match="signs a RECORD"):
        write_wheel(_archive(**{"demo-1.0.dist-info/RECORD.jws": b"{}"}), tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


@given(st.dictionaries(_PATHS, st.binary(), max_size=4))
def test_any_record_survives_the_round_trip(files: dict[str, bytes]) -> None:
    rows = list(parse_record(render_record(files, "x/RECORD")))
    assert rows[-1] == ("x/RECORD", "", "")
    assert {path for path, _, _ in rows[:-1]} == set(files)
    assert all(size == str(len(files[path])) for path, _, size in rows[:-1])


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_a_told_mistake(data: bytes) -> None:
    try:
        rows = list(parse_record(data))
    except WheelFormatError as error:
        assert "RECORD" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert all(len(row) == 3 for row in rows)


def test_labelling_sets_name_tags_and_variant_json() -> None:
    labelled = label_wheel(_archive(), "v3", INFO, "manylinux_2_34_x86_64")
    assert str(labelled.name) == "demo-1.0-py3-none-manylinux_2_34_x86_64-v3.whl"
    wheel = labelled.files["demo-1.0.dist-info/WHEEL"]
    assert wheel_file_tags(wheel) == ["py3-none-manylinux_2_34_x86_64"]
    assert wheel.startswith(b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\n")
    variant = parse_variants_json(labelled.files["demo-1.0.dist-info/variant.json"])
    assert variant == INFO.only("v3")


def test_without_a_new_platform_the_tag_stays() -> None:
    labelled = label_wheel(_archive(), "null", INFO, None)
    assert str(labelled.name) == "demo-1.0-py3-none-linux_x86_64-null.whl"
    assert wheel_file_tags(labelled.files["demo-1.0.dist-info/WHEEL"]) == ["py3-none-linux_x86_64"]


def test_a_second_label_is_refused() -> None:
    once = label_wheel(_archive(), "v3", INFO, None)
    with pytest.raises(WheelFormatError, match="has the label 'v3' already"):
        label_wheel(once, "null", INFO, None)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"Tag: py3-none-any\n", "no Wheel-Version line"), (b"Wheel-Version: \xff\n", "not UTF-8")],
)
def test_a_file_of_tags_that_is_none_is_told(content: bytes, told: str) -> None:
    with pytest.raises(WheelFormatError, match=f"-v3.whl: WHEEL: {told}"):
        label_wheel(_archive(**{"demo-1.0.dist-info/WHEEL": content}), "v3", INFO, None)
