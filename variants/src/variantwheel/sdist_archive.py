"""Source distributions: read as a whole, unpacked, written reproducibly."""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from variantwheel.atomic_file import replace_file
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
        with tarfile.open(file, "r:gz") as archive:
            for member in archive:
                if member.isdir() or member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
                    continue
                path = posixpath.normpath(member.name)
                if path.startswith(("/", "../")):
                    raise SdistFormatError(f"{file}: {member.name!r} leads out of the archive")
                content = archive.extractfile(member)
                if content is None:
                    raise SdistFormatError(f"{file}: {member.name!r} is neither file nor folder")
                files[path] = SdistFile(content.read(), bool(member.mode & 0o100))
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
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


def write_sdist(archive: SdistArchive, target: Path, epoch: int) -> None:
    """Write a `.tar.gz`; the same content and time always give the same bytes.

    Args:
        archive: What to write.
        target: The file.
        epoch: Time stamp of all files, in seconds since 1970.
    """
    buffer = io.BytesIO()
    with (
        # No file name and no time in the gzip header, and level 6: wheels inside do not shrink.
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=buffer, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as output,
    ):
        for path in sorted(archive.files):
            item = archive.files[path]
            member = tarfile.TarInfo(f"{archive.root}/{path}")
            member.size = len(item.data)
            member.mtime = epoch
            member.mode = 0o755 if item.executable else 0o644
            output.addfile(member, io.BytesIO(item.data))
    replace_file(target, buffer.getvalue())
