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

from variantwheel.errors import SdistFormatError


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
        SdistFormatError: The file cannot be read or is no source distribution.
    """
    files: dict[str, SdistFile] = {}
    try:
        # Unpacked to its end first: the checksum stands there, and tarfile stops before it.
        content = io.BytesIO(gzip.decompress(file.read_bytes()))
        with tarfile.open(fileobj=content, mode="r:") as archive:
            for member in archive:
                if member.isdir() or member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
                    continue
                path = posixpath.normpath(member.name)
                if path.startswith(("/", "../")):
                    raise SdistFormatError(f"{file}: {member.name!r} leads out of the archive")
                stream = archive.extractfile(member)
                if stream is None:
                    raise SdistFormatError(f"{file}: {member.name!r} is neither file nor folder")
                files[path] = SdistFile(stream.read(), bool(member.mode & 0o100))
    except (OSError, EOFError, KeyError, tarfile.TarError, zlib.error) as error:
        raise SdistFormatError(f"{file}: not a readable source distribution: {error}") from error
    roots = {path.partition("/")[0] for path in files}
    if len(roots) != 1 or any("/" not in path for path in files):
        raise SdistFormatError(
            f"{file}: needs one top folder, NAME-VERSION, has {', '.join(sorted(roots)) or 'none'}"
        )
    root = roots.pop()
    return SdistArchive(root, {path[len(root) + 1 :]: files[path] for path in files})


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
