"""Wheel files: read as a whole, changed in memory, written reproducibly with a fresh RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import time
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import deflate

from variantwheel.atomic_file import replace_file
from variantwheel.errors import WheelFormatError
from variantwheel_selector.errors import InvalidNameError
from variantwheel_selector.wheel_name import WheelName, escape_project

_UNSIGNED = ("RECORD.jws", "RECORD.p7s")
# The zip format knows no earlier date.
_EARLIEST_ZIP_TIME = 315532800
_SMALLEST = 12
"""libdeflate's highest level."""
_LONGEST = 1 << 30
"""Bytes; what is longer might need the fields of zip64, and goes through zipfile as a whole."""


@dataclass(frozen=True)
class WheelArchive:
    """The content of a wheel.

    Attributes:
        name: Its file name.
        dist_info: The name of its `.dist-info` folder.
        files: Bytes by path; folders are left out.
        executables: Paths whose execute bit is set.
    """

    name: WheelName
    dist_info: str
    files: Mapping[str, bytes]
    executables: frozenset[str] = field(default_factory=frozenset)

    def dist_info_file(self, name: str) -> bytes:
        """Return a file of the `.dist-info` folder.

        Raises:
            WheelFormatError: There is none.
        """
        path = f"{self.dist_info}/{name}"
        if path not in self.files:
            raise WheelFormatError(f"{self.name}: {path} is missing")
        return self.files[path]


def wheel_name_of(file: Path) -> WheelName:
    """Parse the name of a wheel file.

    Raises:
        WheelFormatError: It is not the name of a wheel.
    """
    try:
        return WheelName.from_str(file.name)
    except InvalidNameError as error:
        raise WheelFormatError(f"{file}: {error}") from error


def read_wheel(file: Path) -> WheelArchive:
    """Read a wheel.

    Raises:
        WheelFormatError: The file cannot be read or is no wheel.
    """
    name = wheel_name_of(file)
    files: dict[str, bytes] = {}
    executables: set[str] = set()
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.is_dir():
                    continue
                _check_path(file, entry.filename, files)
                files[entry.filename] = archive.read(entry)
                if entry.external_attr >> 16 & 0o100:
                    executables.add(entry.filename)
    except (
        OSError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        # Unknown compression, and encryption.
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise WheelFormatError(f"{file}: not a readable wheel: {error}") from error
    return WheelArchive(name, _find_dist_info(file, name, files), files, frozenset(executables))


def write_wheel(archive: WheelArchive, folder: Path, epoch: int) -> Path:
    """Write a wheel; the same content and time always give the same bytes.

    Args:
        archive: Its RECORD is computed anew.
        folder: Where to write it, under its own name.
        epoch: Time stamp of all files, in seconds since 1970.

    Returns:
        The file.
    """
    record_path = f"{archive.dist_info}/RECORD"
    files = {path: data for path, data in archive.files.items() if path != record_path}
    for name in _UNSIGNED:
        if f"{archive.dist_info}/{name}" in files:
            raise WheelFormatError(
                f"{archive.name}: {name} signs a RECORD that has to change; sign the result instead"
            )
    files[record_path] = render_record(files, record_path)
    stamp = time.gmtime(max(epoch, _EARLIEST_ZIP_TIME))[:6]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as output:
        # Metadata last, RECORD at the very end: PEP 427's recommendation for archives.
        for path in sorted(
            files, key=lambda p: (p.startswith(archive.dist_info), p == record_path, p)
        ):
            entry = zipfile.ZipInfo(path, stamp)
            mode = 0o755 if path in archive.executables else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3
            _add_deflated(output, buffer, entry, files[path])
    target = folder / str(archive.name)
    replace_file(target, buffer.getvalue())
    return target


def _add_deflated(
    output: zipfile.ZipFile, buffer: io.BytesIO, entry: zipfile.ZipInfo, data: bytes
) -> None:
    """Add a member as small as libdeflate makes it: some 4 % smaller than zlib does."""
    if len(data) > _LONGEST:
        output.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)
        return
    # zipfile takes no deflated bytes: they are stored as they are, and then called what they are.
    output.writestr(entry, deflate.deflate_compress(data, _SMALLEST), zipfile.ZIP_STORED)
    entry.compress_type, entry.CRC, entry.file_size = (
        zipfile.ZIP_DEFLATED, zlib.crc32(data), len(data),
    )  # fmt: skip
    end = buffer.tell()
    buffer.seek(entry.header_offset)
    buffer.write(entry.FileHeader(zip64=False))
    buffer.seek(end)


def render_record(files: Mapping[str, bytes], record_path: str) -> bytes:
    """Write RECORD for some files; itself is listed without hash and size."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    for path in sorted(files):
        writer.writerow((path, f"sha256={record_digest(files[path])}", len(files[path])))
    writer.writerow((record_path, "", ""))
    return output.getvalue().encode()


def parse_record(data: bytes) -> Iterator[tuple[str, str, str]]:
    """Read the lines of RECORD: path, `algorithm=digest`, size.

    Raises:
        WheelFormatError: A line does not have three fields.
    """
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise WheelFormatError(f"RECORD: {error}") from error
    for number, row in enumerate(rows, start=1):
        if not row:
            continue
        if len(row) != 3:
            raise WheelFormatError(f"RECORD: line {number} has {len(row)} fields instead of 3")
        yield row[0], row[1], row[2]


def record_digest(data: bytes, algorithm: str = "sha256") -> str:
    """Return a digest as RECORD spells it: URL-safe base64 without padding."""
    digest = hashlib.new(algorithm, data).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _check_path(file: Path, path: str, known: Mapping[str, bytes]) -> None:
    parts = PurePosixPath(path).parts
    odd = path.startswith("/") or ".." in parts or "\\" in path or os.path.normpath(path) != path
    if odd or any(unicodedata.category(character) == "Cc" for character in path):
        raise WheelFormatError(f"{file}: holds {path!r}, which is no plain relative path")
    if path in known:
        raise WheelFormatError(f"{file}: holds {path!r} twice")


def _find_dist_info(file: Path, name: WheelName, files: Mapping[str, bytes]) -> str:
    tops = {path.split("/", 1)[0] for path in files if "/" in path}
    found = sorted(top for top in tops if top.endswith(".dist-info"))
    if len(found) != 1:
        raise WheelFormatError(
            f"{file}: needs exactly one .dist-info folder, has {', '.join(found) or 'none'}"
        )
    distribution, _, version = found[0].removesuffix(".dist-info").partition("-")
    if escape_project(distribution) != escape_project(name.distribution) or version != name.version:
        raise WheelFormatError(
            f"{file}: its folder {found[0]} belongs to another release than its name says"
        )
    return found[0]
