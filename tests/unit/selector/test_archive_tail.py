"""Adding a listed file to a wheel without `zipfile`: what zipfile reads, and what is refused."""

import csv
import hashlib
import io
import struct
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from variantwheel_selector.archive_tail import (
    LARGE,
    add_listed,
    is_unsafe,
    read_members,
    record_hash,
)

DIST_INFO = "demo-1.0.dist-info"
RECORD = f"{DIST_INFO}/RECORD"
STAMP = (2020, 2, 2, 0, 0, 0)
PATHS = st.from_regex(r"[a-zé][a-z0-9_é]{0,8}(/[a-z0-9_]{1,8}){0,2}\.(py|so)", fullmatch=True)
METHODS = st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])


def _listed(path: str, content: bytes) -> str:
    return f"{path},sha256={record_hash(hashlib.sha256(content).digest())},{len(content)}\n"


def _wheel(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    record = "".join(_listed(path, content) for path, content in files.items()) + f"{RECORD},,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for path, content in {**files, RECORD: record.encode()}.items():
            info = zipfile.ZipInfo(path, STAMP)
            info.compress_type = method
            archive.writestr(info, content)
    return packed.getvalue()


def _by_zipfile(wheel: bytes, filename: str, content: bytes) -> bytes:
    """The same by `zipfile`, which can only rewrite the archive as a whole."""
    written = io.BytesIO()
    path = f"{DIST_INFO}/{filename}"
    with zipfile.ZipFile(io.BytesIO(wheel)) as old, zipfile.ZipFile(written, "w") as new:
        for info in old.infolist()[:-1]:
            new.writestr(info, old.read(info))
        lines = old.read(RECORD).decode().removesuffix(f"{RECORD},,\n")
        record = f"{lines}{_listed(path, content)}{RECORD},,\n".encode()
        for name, data in ((path, content), (RECORD, record)):
            info = zipfile.ZipInfo(name, old.getinfo(RECORD).date_time)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            new.writestr(info, data)
    return written.getvalue()


@settings(max_examples=60)
@given(st.dictionaries(PATHS, st.binary(max_size=300), max_size=6), METHODS, st.binary())
def test_the_bytes_are_those_of_zipfile(
    files: dict[str, bytes], method: int, content: bytes
) -> None:
    wheel = _wheel(files, method)
    file = io.BytesIO(wheel)
    assert add_listed(file, DIST_INFO, "decision.json", content)
    assert file.getvalue() == _by_zipfile(wheel, "decision.json", content)
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        rows = list(csv.reader(io.StringIO(archive.read(RECORD).decode())))
        assert [row[0] for row in rows] == archive.namelist()
        assert rows[-1] == [RECORD, "", ""]
        assert archive.read(f"{DIST_INFO}/decision.json") == content


@settings(max_examples=60)
@given(st.dictionaries(PATHS, st.binary(max_size=300), max_size=6), METHODS)
def test_members_are_those_of_zipfile(files: dict[str, bytes], method: int) -> None:
    wheel = io.BytesIO(_wheel(files, method))
    members = read_members(wheel)
    assert members is not None
    with zipfile.ZipFile(wheel) as archive:
        assert [(m.name, m.offset, m.packed, m.size, m.crc, m.method) for m in members] == [
            (i.filename, i.header_offset, i.compress_size, i.file_size, i.CRC, i.compress_type)
            for i in archive.infolist()
        ]


WHEEL = _wheel({"demo/__init__.py": b"x = 1\n" * 40, f"{DIST_INFO}/METADATA": b"Name: demo\n"})


@settings(max_examples=400)
@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """Never an error; what is accepted zipfile reads alike, and no name leads elsewhere."""
    damaged = bytearray(WHEEL)
    for _ in range(data.draw(st.integers(1, 3))):
        # Mostly the directory and the end of the archive, where all is told.
        near_end = st.integers(len(damaged) - 300, len(damaged))
        start = data.draw(st.one_of(st.integers(0, len(damaged)), near_end))
        new = data.draw(st.one_of(st.binary(max_size=4), st.sampled_from([b"\xff" * 4, b"\0" * 2])))
        cut = data.draw(st.sampled_from([len(new), len(new), 0, 3]))
        damaged[start : start + cut] = new
    file = io.BytesIO(damaged)
    members = read_members(file)
    if members is None:
        assert not add_listed(file, DIST_INFO, "decision.json", b"{}")
        assert file.getvalue() == damaged
        return
    assert not any(is_unsafe(member.name) for member in members)
    try:
        with zipfile.ZipFile(io.BytesIO(damaged)) as archive:
            assert archive.namelist() == [member.name for member in members]
    except NotImplementedError:
        pass  # a version of the format that zipfile does not know
    if add_listed(file, DIST_INFO, "decision.json", b"{}"):
        with zipfile.ZipFile(file) as archive:
            assert archive.read(f"{DIST_INFO}/decision.json") == b"{}"
            assert archive.namelist()[-1] == RECORD


def _edited(edit: Callable[[zipfile.ZipFile], None]) -> bytes:
    packed = io.BytesIO(WHEEL)
    with zipfile.ZipFile(packed, "a") as archive:
        edit(archive)
    return packed.getvalue()


def _link(archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("link", STAMP)
    info.external_attr = 0o120777 << 16
    archive.writestr(info, b"/etc/passwd")


def _named(name: str) -> Callable[[zipfile.ZipFile], None]:
    def edit(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("x", STAMP)
        info.filename = name
        archive.writestr(info, b"")

    return edit


def _twice(archive: zipfile.ZipFile) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("demo/__init__.py", b"")


def _comment(archive: zipfile.ZipFile) -> None:
    archive.comment = b"told"


def _extra(archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("extra", STAMP)
    info.extra = struct.pack("<HHL", 0x5455, 4, 0)
    archive.writestr(info, b"")


def _bomb(archive: zipfile.ZipFile) -> None:
    archive.writestr("bomb", b"\0" * (LARGE + 1), zipfile.ZIP_DEFLATED)


def _overlapping(archive: zipfile.ZipFile) -> None:
    archive.infolist()[0].compress_size += 100_000
    archive.writestr("more", b"")


EDITS = {
    "link": _link, "upwards": _named("../up"), "absolute": _named("/etc/passwd"),
    "twice": _twice, "comment": _comment, "extra": _extra, "bomb": _bomb,
    "overlapping": _overlapping, "drive": _named("c:/x"), "backslash": _named("a\\..\\b"),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_other_forms_are_left_to_zipfile(edit: Callable[[zipfile.ZipFile], None]) -> None:
    assert read_members(io.BytesIO(WHEEL)) is not None
    assert read_members(io.BytesIO(_edited(edit))) is None


def test_a_wheel_must_end_with_its_record() -> None:
    later = io.BytesIO(_edited(lambda archive: archive.writestr("later", b"")))
    assert read_members(later) is not None
    before = later.getvalue()
    assert not add_listed(later, DIST_INFO, "decision.json", b"{}")
    assert later.getvalue() == before
    assert not add_listed(io.BytesIO(WHEEL), "other-1.0.dist-info", "decision.json", b"{}")
    assert not add_listed(io.BytesIO(WHEEL), DIST_INFO, "METADATA", b"{}"), "it is there already"
