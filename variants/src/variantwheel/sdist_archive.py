"""Source distributions: read as a whole and unpacked."""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from variantwheel.errors import SdistFormatError
from variantwheel.expansion import Expansion


@dataclass(frozen=True)
class SdistFile:
    """One file of a source distribution."""

    data: bytes
    executable: bool = False


@dataclass(frozen=True)
class SdistArchive:
    """The content of a source distribution.

    Attributes:
        root: The folder that everything lies in, `NAME-VERSION`.
        files: By path below the root.
    """

    root: str
    files: Mapping[str, SdistFile]


def read_sdist(file: Path) -> SdistArchive:
    """Read a `.tar.gz`; links are replaced by what they lead to.

    Raises:
        SdistFormatError: The file cannot be read, is no source distribution, or unpacks to more
            than one would.
    """
    files: dict[str, SdistFile] = {}
    try:
        # Once for the archive, once for its files: links to large ones, and holes, are no bytes.
        unpacked, held = Expansion(file), Expansion(file)
        # Unpacked to its end first: the checksum stands there, and tarfile stops before it.
        with gzip.open(file) as stream:
            content = io.BytesIO(unpacked.read_all(cast("BinaryIO", stream)))
        with tarfile.open(fileobj=content, mode="r:") as archive:
            for member in archive:
                if member.isdir() or member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
                    continue
                path = posixpath.normpath(member.name)
                if path.startswith(("/", "../")):
                    raise SdistFormatError(f"{file}: {member.name!r} leads out of the archive")
                found = _opened(archive, member)
                if found is None:
                    raise SdistFormatError(f"{file}: {member.name!r} is neither file nor folder")
                files[path] = SdistFile(held.read_all(found), bool(member.mode & 0o100))
    except (OSError, EOFError, KeyError, tarfile.TarError, zlib.error) as error:
        raise SdistFormatError(f"{file}: not a readable source distribution: {error}") from error
    roots = {path.partition("/")[0] for path in files}
    if len(roots) != 1 or any("/" not in path for path in files):
        raise SdistFormatError(
            f"{file}: needs one top folder, NAME-VERSION, has {', '.join(sorted(roots)) or 'none'}"
        )
    root = roots.pop()
    return SdistArchive(root, {path[len(root) + 1 :]: files[path] for path in files})


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO | None:
    """Open a file, or what a link leads to; none if it is of another kind.

    Raises:
        TarError: The link leads nowhere.
    """
    try:
        return cast("BinaryIO | None", archive.extractfile(member))
    except RecursionError as error:
        raise tarfile.TarError(f"{member.name!r} is a link that leads back to itself") from error


def unpack_sdist(archive: SdistArchive, folder: Path) -> None:
    """Write the files below the root into a folder."""
    for path, item in archive.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(item.data)
        target.chmod(0o755 if item.executable else 0o644)


def update_tree(archive: SdistArchive, folder: Path, listing: Path) -> None:
    """Bring a folder to the archive's content without touching what is the same.

    Files that others made in the folder, such as objects, stay.

    Args:
        archive: The new content.
        folder: Where an older content may lie.
        listing: A file that keeps the names of what was unpacked, so that what the archive no
            longer holds is removed.
    """
    names = listing.read_bytes().decode(errors="surrogateescape") if listing.is_file() else ""
    for path in names.splitlines():
        if path not in archive.files:
            (folder / path).unlink(missing_ok=True)
    for path, item in archive.files.items():
        target = folder / path
        if not target.is_file() or target.read_bytes() != item.data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(item.data)
        target.chmod(0o755 if item.executable else 0o644)
    names = "".join(f"{path}\n" for path in archive.files)
    listing.write_bytes(names.encode(errors="surrogateescape"))
