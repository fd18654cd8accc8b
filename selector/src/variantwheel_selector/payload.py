"""Opens a payload wheel: hash and size first, then everything that its archive claims.

A wheel is read once: the handle that was hashed, or the copy that was made meanwhile, is what is
read afterwards. One whose pieces stand in a shared file is put together as it is copied.
"""

from __future__ import annotations

import csv
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from variantwheel_selector.archive_tail import (
    LARGE,
    MOST_EXPANSION,
    MOST_MEMBERS,
    TEXT_LIMIT,
    is_unsafe,
)
from variantwheel_selector.errors import PayloadError, VariantsJsonError
from variantwheel_selector.header_fields import header_values
from variantwheel_selector.manifest import Manifest, PayloadWheel
from variantwheel_selector.variants_json import parse_variants_json
from variantwheel_selector.wheel_file import Pieces, hashed_copy
from variantwheel_selector.wheel_name import WheelName, normalize_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path
    from typing import BinaryIO

_RECORD_HASHES = {
    **dict.fromkeys(("sha256", "sha3_256", "blake2s"), 43),
    **dict.fromkeys(("sha384", "sha3_384"), 64),
    **dict.fromkeys(("sha512", "sha3_512", "blake2b"), 86),
}
"""Those that a wheel may list its files with, each with the signs of its base64."""
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")

INVALID_ARCHIVE = (
    zipfile.BadZipFile,
    KeyError,
    # A damaged directory of members leads before the file's beginning; text that is none.
    ValueError,
    csv.Error,
    zlib.error,
    EOFError,
    # Unknown compression, and encryption.
    NotImplementedError,
    RuntimeError,
)
"""What `zipfile` raises for archives that are damaged or none."""


@contextmanager
def open_payload(path: Path, wheel: PayloadWheel) -> Iterator[BinaryIO]:
    """Open a payload wheel for reading after its bytes proved to be the promised ones.

    Args:
        path: Where it is, or the shared file with its pieces.
        wheel: What the manifest says of it.

    Raises:
        PayloadError: The file is missing, or its size or hash differs from the manifest's.
    """
    if wheel.ranges:
        from tempfile import TemporaryFile  # noqa: PLC0415 - installations copy

        with TemporaryFile() as copy:
            copy_payload(path, wheel, copy)
            copy.seek(0)
            yield copy
        return
    with _opened(path, wheel) as file:
        _verified_copy(file, wheel, None)
        file.seek(0)
        yield file


def copy_payload(path: Path, wheel: PayloadWheel, copy: BinaryIO) -> None:
    """Copy a payload wheel, whose bytes prove to be the promised ones.

    Args:
        path: Where it is, or the shared file with its pieces.
        wheel: What the manifest says of it.
        copy: Takes the bytes as they are read; worth nothing if an error is raised.

    Raises:
        PayloadError: The file is missing, or its size or hash differs from the manifest's.
    """
    with _opened(path, wheel) as file:
        _verified_copy(file, wheel, copy)


def _opened(path: Path, wheel: PayloadWheel) -> FileIO:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(wheel, error) from error


def _verified_copy(file: FileIO, wheel: PayloadWheel, copy: BinaryIO | None) -> None:
    source = Pieces(file, wheel.ranges) if wheel.ranges else file
    size, sha256 = hashed_copy(lambda buffer: _read_into(source, buffer, wheel), copy)
    if size != wheel.size or sha256 != wheel.sha256:
        raise PayloadError(
            f"payload wheel {wheel.filename!r} is not the released one\n"
            f"  expected {wheel.size} bytes, sha256 {wheel.sha256}\n"
            f"  found {size} bytes, sha256 {sha256}\n"
            "the sdist is damaged or was altered, download it again"
        )


def _read_into(file: FileIO | Pieces, buffer: memoryview, wheel: PayloadWheel) -> int:
    try:
        return file.readinto(buffer) or 0
    except OSError as error:
        raise _unreadable(wheel, error) from error


def _unreadable(wheel: PayloadWheel, error: OSError) -> PayloadError:
    return PayloadError(
        f"payload wheel {wheel.filename!r} cannot be read: {error.strerror}; "
        "the sdist is incomplete, download it again"
    )


def check_wheel(
    file: BinaryIO, wheel: PayloadWheel, manifest: Manifest, tags: Sequence[str]
) -> None:
    """Check the content of a payload wheel against its name, the manifest and this machine.

    Args:
        file: The wheel, at its beginning.
        wheel: What the manifest says of it.
        manifest: The release.
        tags: What this machine's Python accepts.

    Raises:
        PayloadError: Something does not agree.
    """
    name = wheel.name
    if not set(tags) & set(name.tags()):
        raise PayloadError(f"{wheel.filename!r} is not for this Python and platform")
    try:
        with zipfile.ZipFile(file) as archive:
            infos = check_members(archive, wheel.filename)
            dist_info = name.dist_info
            _check_record(archive, infos, f"{dist_info}/RECORD", wheel.filename)
            _check_metadata(archive, dist_info, wheel.filename, manifest)
            _check_wheel_tags(archive, dist_info, name)
            _check_variant(archive, dist_info, wheel, manifest)
    except (OSError, *INVALID_ARCHIVE) as error:
        raise PayloadError(f"{wheel.filename!r} is not a valid wheel: {error}") from error


def check_members(archive: zipfile.ZipFile, filename: str) -> dict[str, zipfile.ZipInfo]:
    """Return an archive's files by name, refusing whatever could be written outside its folder.

    Raises:
        PayloadError: A member is absolute, leads upwards, is a link or occurs twice, or the archive
            holds more than a wheel can.
    """
    infos: dict[str, zipfile.ZipInfo] = {}
    _check_expansion(archive, filename)
    for info in archive.infolist():
        member = info.filename
        # orig_filename: zipfile cuts a name at a NUL byte, and other readers may not.
        if is_unsafe(member) or info.orig_filename != member:
            raise PayloadError(f"{filename!r} holds a file with the unsafe path {member!r}")
        if info.header_offset < 0:
            raise PayloadError(f"{filename!r} lacks its beginning: {member!r} would be before it")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise PayloadError(f"{filename!r} holds a symbolic link, {member!r}")
        if member in infos:
            raise PayloadError(f"{filename!r} holds {member!r} twice")
        infos[member] = info
    return {member: info for member, info in infos.items() if not info.is_dir()}


def _check_expansion(archive: zipfile.ZipFile, filename: str) -> None:
    """Refuse what would fill the disk of whoever unpacks it."""
    infos = archive.infolist()
    packed = sum(info.compress_size for info in infos)
    unpacked = sum(info.file_size for info in infos)
    if len(infos) > MOST_MEMBERS:
        raise PayloadError(f"{filename!r} holds {len(infos)} files, {MOST_MEMBERS} are the most")
    if packed > archive.start_dir:
        raise PayloadError(f"{filename!r} holds files that overlap each other")
    if unpacked > LARGE and unpacked > packed * MOST_EXPANSION:
        raise PayloadError(f"{filename!r} would expand from {packed} to {unpacked} bytes")


def _read_text(archive: zipfile.ZipFile, member: str) -> bytes:
    """Return a small member; one that is too large for its purpose is refused unread."""
    size = archive.getinfo(member).file_size
    if size > TEXT_LIMIT:
        raise PayloadError(f"{member!r} has {size} bytes, {TEXT_LIMIT} are the most")
    return archive.read(member)


def _check_record(
    archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo], record: str, filename: str
) -> None:
    listed: dict[str, tuple[str, str]] = {}
    for row in csv.reader(io.StringIO(_read_text(archive, record).decode("utf-8"))):
        if len(row) != 3 or row[0] in listed:
            raise PayloadError(f"{filename!r} has an invalid RECORD line {row!r}")
        listed[row[0]] = (row[1], row[2])
    folder = record.rpartition("/")[0]
    exempt = {f"{folder}/{name}" for name in _UNHASHED}
    stray = sorted((set(infos) ^ set(listed)) - exempt)
    if stray:
        raise PayloadError(f"{filename!r} and its RECORD do not agree on {stray[0]!r}")
    for member, info in infos.items():
        if member in exempt:
            continue
        algorithm, _, expected = listed[member][0].partition("=")
        if algorithm not in _RECORD_HASHES:
            raise PayloadError(
                f"{filename!r} has no strong hash of {member!r} in its RECORD, but {algorithm!r}; "
                f"write RECORD with one of {', '.join(_RECORD_HASHES)}"
            )
        # Contents are not hashed here again: the hash of the whole file pins them.
        digits, size = _RECORD_HASHES[algorithm], listed[member][1]
        is_hash = re.fullmatch(r"[A-Za-z0-9_-]*", expected) and len(expected) == digits
        if not is_hash or size not in ("", str(info.file_size)):
            raise PayloadError(f"{filename!r}: {member!r} differs from its RECORD")


def _check_metadata(
    archive: zipfile.ZipFile, dist_info: str, filename: str, manifest: Manifest
) -> None:
    metadata = _read_text(archive, f"{dist_info}/METADATA")
    project, version = (next(header_values(metadata, name), "") for name in ("Name", "Version"))
    same_project = normalize_project(project) == normalize_project(manifest.name)
    if not same_project or version != manifest.version:
        raise PayloadError(
            f"{filename!r} is a wheel of {project} {version}, "
            f"not of {manifest.name} {manifest.version}"
        )


def _check_wheel_tags(archive: zipfile.ZipFile, dist_info: str, name: WheelName) -> None:
    stated = set(header_values(_read_text(archive, f"{dist_info}/WHEEL"), "Tag"))
    if stated != set(name.tags()):
        raise PayloadError(
            f"{str(name)!r} says other tags inside than in its name: {', '.join(sorted(stated))}"
        )


def _check_variant(
    archive: zipfile.ZipFile, dist_info: str, wheel: PayloadWheel, manifest: Manifest
) -> None:
    try:
        info = parse_variants_json(_read_text(archive, f"{dist_info}/variant.json"), "variant.json")
    except VariantsJsonError as error:
        raise PayloadError(f"{wheel.filename!r}: {error}") from error
    expected = manifest.variants.variants[wheel.label]
    if dict(info.variants) != {wheel.label: expected}:
        raise PayloadError(f"{wheel.filename!r}: its variant.json says other than the manifest")
