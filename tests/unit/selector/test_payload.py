"""Payload wheels are believed only after their bytes, names and contents have been checked."""

import base64
import hashlib
import io
import stat
import zipfile
from pathlib import Path

import pytest

from unit.selector.tiny_release import TinyRelease, release_info, wheel_bytes
from variantwheel_selector.errors import PayloadError
from variantwheel_selector.model import Variant
from variantwheel_selector.payload import check_members, check_wheel, open_payload
from variantwheel_selector.record import replace
from variantwheel_selector.variants_json import render_variants_json

TAGS = ("py3-none-any",)


def check(release: TinyRelease) -> None:
    """Open and check the last wheel of the release."""
    wheel = release.wheels[-1]
    with open_payload(release.root / "payload" / wheel.filename, wheel) as file:
        check_wheel(file, wheel, release.manifest, TAGS)


def replace_wheel(release: TinyRelease, files: dict[str, bytes]) -> None:
    """Put another v3 wheel into the payload, with a manifest that agrees."""
    release.wheels = [wheel for wheel in release.wheels if wheel.label != "x86_64_v3"]
    release.add("x86_64_v3", files)


def test_a_proper_wheel_is_fine(release: TinyRelease) -> None:
    check(release)


def test_one_changed_byte_is_found_before_the_archive_is_opened(release: TinyRelease) -> None:
    path = release.root / "payload" / release.wheels[-1].filename
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(PayloadError, match=r"is not the released one\n.*sha256"):
        check(release)


def test_a_longer_or_missing_file_is_found(release: TinyRelease) -> None:
    path = release.root / "payload" / release.wheels[-1].filename
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(PayloadError, match="is not the released one"):
        check(release)
    path.unlink()
    with pytest.raises(PayloadError, match="cannot be read"):
        check(release)


def test_a_wheel_for_another_platform_is_refused(release: TinyRelease) -> None:
    wheel = release.wheels[-1]
    with (
        open_payload(release.root / "payload" / wheel.filename, wheel) as file,
        pytest.raises(PayloadError, match="not for this Python and platform"),
    ):
        check_wheel(file, wheel, release.manifest, ("cp311-cp311-linux_x86_64",))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("METADATA", b"Metadata-Version: 2.2\nName: other\nVersion: 1.0\n", "wheel of other 1.0"),
        ("METADATA", b"Metadata-Version: 2.2\nName: tiny-native\nVersion: 2\n", "tiny-native 2"),
        ("WHEEL", b"Wheel-Version: 1.0\nTag: cp39-cp39-win_amd64\n", "other tags inside"),
        ("variant.json", b"{}", "key '.schema' is missing"),
        ("variant.json", b"null", "expected an object"),
    ],
)
def test_contents_must_agree_with_the_manifest(
    release: TinyRelease, file: str, content: bytes, words: str
) -> None:
    files = release.wheel_files("x86_64_v3") | {f"{release.dist_info}/{file}": content}
    replace_wheel(release, files)
    with pytest.raises(PayloadError, match=words):
        check(release)


def test_the_properties_must_be_those_of_the_manifest(release: TinyRelease) -> None:
    other = release.wheel_files("x86_64_v4")[f"{release.dist_info}/variant.json"]
    files = release.wheel_files("x86_64_v3") | {f"{release.dist_info}/variant.json": other}
    replace_wheel(release, files)
    with pytest.raises(PayloadError, match="says other than the manifest"):
        check(release)
    less = Variant.from_strings("x86_64_v3", ["x86_64 :: level :: v2"])
    text = render_variants_json(release_info([less])).encode()
    replace_wheel(release, {**files, f"{release.dist_info}/variant.json": text})
    with pytest.raises(PayloadError, match="says other than the manifest"):
        check(release)


@pytest.mark.parametrize("missing", ["METADATA", "WHEEL", "variant.json", "RECORD"])
def test_no_part_of_a_wheel_may_be_missing(release: TinyRelease, missing: str) -> None:
    files = release.wheel_files("x86_64_v3")
    files.pop(f"{release.dist_info}/{missing}", None)
    if missing == "RECORD":
        _replace_data(release, _zip(files))
    else:
        replace_wheel(release, files)
    with pytest.raises(PayloadError, match=missing):
        check(release)


def test_record_is_compared_with_the_files(release: TinyRelease) -> None:
    files = release.wheel_files("x86_64_v3")
    packed = wheel_bytes(files, release.dist_info)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        record = archive.read(f"{release.dist_info}/RECORD")
    changed = {**files, "tiny_native/__init__.py": b"import something_else\n"}
    _replace_data(release, _zip({**changed, f"{release.dist_info}/RECORD": record}))
    with pytest.raises(PayloadError, match=r"'tiny_native/__init__.py' differs from its RECORD"):
        check(release)
    _replace_data(release, _zip({**files, "stray.py": b"", f"{release.dist_info}/RECORD": record}))
    with pytest.raises(PayloadError, match=r"do not agree on 'stray.py'"):
        check(release)


@pytest.mark.parametrize(
    ("algorithm", "cut", "words"),
    [
        ("sha256", 0, ""),
        ("sha384", 0, ""),
        ("sha512", 0, ""),
        ("sha3_384", 0, ""),
        ("blake2b", 0, ""),
        ("sha384", 1, "'tiny_native/__init__.py' differs from its RECORD"),
        (
            "sha224",
            0,
            "has no strong hash of 'tiny_native/__init__.py' in its RECORD, but 'sha224'",
        ),
        ("md5", 0, "but 'md5'; write RECORD with one of sha256, "),
        ("", 0, "but ''; write"),
    ],
)
def test_record_may_hold_any_strong_hash(
    release: TinyRelease, algorithm: str, cut: int, words: str
) -> None:
    files = release.wheel_files("x86_64_v4")
    lines = [f"{release.dist_info}/RECORD,,"]
    for path, content in files.items():
        digest = hashlib.new(algorithm, content).digest() if algorithm else b""
        text = base64.urlsafe_b64encode(digest[cut:]).rstrip(b"=").decode()
        lines.append(f"{path},{algorithm}={text},{len(content) if cut else ''}")
    record = "\n".join(lines).encode()
    _replace_data(release, _zip({**files, f"{release.dist_info}/RECORD": record}))
    if words:
        with pytest.raises(PayloadError, match=words):
            check(release)
    else:
        check(release)


def test_garbage_is_no_wheel(release: TinyRelease) -> None:
    _replace_data(release, b"garbage")
    with pytest.raises(PayloadError, match="not a valid wheel"):
        check(release)


def _zip(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return packed.getvalue()


def _replace_data(release: TinyRelease, data: bytes) -> None:
    wheel = release.wheels[-1]
    (release.root / "payload" / wheel.filename).write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    release.wheels[-1] = replace(wheel, size=len(data), sha256=sha256)


@pytest.mark.parametrize(
    "member",
    ["/etc/passwd", "../up", "a/../../up", "a//b", "./a", "c:/windows", "a\\..\\b", "..", "a/./b"],
)
def test_members_may_not_leave_the_folder(member: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("x")
        info.filename = member
        archive.writestr(info, b"")
    with zipfile.ZipFile(path) as archive, pytest.raises(PayloadError, match="unsafe path"):
        check_members(archive, "a.zip")


def test_links_and_doubled_members_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, b"/etc/passwd")
    with (
        zipfile.ZipFile(tmp_path / "link.zip") as archive,
        pytest.raises(PayloadError, match="symbolic link"),
    ):
        check_members(archive, "link.zip")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a", b"2")
    with (
        zipfile.ZipFile(tmp_path / "two.zip") as archive,
        pytest.raises(PayloadError, match="twice"),
    ):
        check_members(archive, "two.zip")


def _archive(path: Path, *sizes: int) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, size in enumerate(sizes):
            archive.writestr(f"{number}", b"\0" * size)


def test_zip_bombs_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.zip"
    _archive(bomb, 40 << 20, 40 << 20)
    with (
        zipfile.ZipFile(bomb) as archive,
        pytest.raises(PayloadError, match=r"would expand from \d+ to 83886080 bytes"),
    ):
        check_members(archive, "bomb.zip")
    _archive(bomb, 1 << 20)  # small enough, however well it compresses
    with zipfile.ZipFile(bomb) as archive:
        check_members(archive, "bomb.zip")
    monkeypatch.setattr("variantwheel_selector.payload.MOST_MEMBERS", 2)
    _archive(bomb, 1, 1, 1)
    with zipfile.ZipFile(bomb) as archive, pytest.raises(PayloadError, match="holds 3 files"):
        check_members(archive, "bomb.zip")


def test_overlapping_members_are_refused(tmp_path: Path) -> None:
    """Many names for the same bytes, as the best known bombs have them."""
    bomb = tmp_path / "bomb.zip"
    _archive(bomb, 1000, 1000, 1000)
    with zipfile.ZipFile(bomb) as archive:
        for info in archive.infolist():
            info.compress_size = archive.start_dir
        with pytest.raises(PayloadError, match="overlap"):
            check_members(archive, "bomb.zip")


def test_metadata_may_not_be_huge(release: TinyRelease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("variantwheel_selector.payload.TEXT_LIMIT", 20)
    with pytest.raises(PayloadError, match=r"dist-info/RECORD' has \d+ bytes"):
        check(release)
