"""Wheel files, read as a whole, and their RECORD. `wheel_writing` writes them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from variantwheel.errors import WheelFormatError
from variantwheel_selector.errors import InvalidNameError, PayloadError
from variantwheel_selector.payload import INVALID_ARCHIVE, check_members
from variantwheel_selector.wheel_name import WheelName, escape_project


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
        WheelFormatError: The file cannot be read or is no wheel, or installations would refuse what
            it holds.
    """
    name = wheel_name_of(file)
    files: dict[str, bytes] = {}
    executables: set[str] = set()
    paths: set[str] = set()
    try:
        with zipfile.ZipFile(file) as archive:
            # Nothing may pass here that the selector does not hand over.
            check_members(archive, str(file))
            for entry in archive.infolist():
                _check_path(file, entry.filename.removesuffix("/"), paths)
                if entry.is_dir():
                    continue
                files[entry.filename] = archive.read(entry)
                if entry.external_attr >> 16 & 0o100:
                    executables.add(entry.filename)
    except PayloadError as error:
        raise WheelFormatError(str(error)) from error
    except WheelFormatError:
        raise
    except (OSError, *INVALID_ARCHIVE) as error:
        raise WheelFormatError(f"{file}: not a readable wheel: {error}") from error
    for path in files:
        above = next((str(p) for p in PurePosixPath(path).parents if str(p) in files), None)
        if above is not None:
            raise WheelFormatError(f"{file}: holds {above!r} as a file and as a folder")
    return WheelArchive(name, _find_dist_info(file, name, files), files, frozenset(executables))


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
            raise WheelFormatError(f"RECORD: line {number} is empty, which pip cannot read")
        if len(row) != 3:
            raise WheelFormatError(f"RECORD: line {number} has {len(row)} fields instead of 3")
        yield row[0], row[1], row[2]


def record_digest(data: bytes, algorithm: str = "sha256") -> str:
    """Return a digest as RECORD spells it: URL-safe base64 without padding."""
    digest = hashlib.new(algorithm, data).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _check_path(file: Path, path: str, known: set[str]) -> None:
    """Refuse what no installer writes where it belongs."""
    if os.path.normpath(path) != path or any(
        unicodedata.category(character) == "Cc" for character in path
    ):
        raise WheelFormatError(f"{file}: holds {path!r}, which is no plain relative path")
    if path in known:
        raise WheelFormatError(f"{file}: holds {path!r} twice")
    known.add(path)


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
