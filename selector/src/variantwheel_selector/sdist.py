"""Packs the folder of a selector sdist into its archive; the same files give the same bytes."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from variantwheel_selector.errors import ManifestError
from variantwheel_selector.manifest import SHARED_FILE, Manifest
from variantwheel_selector.sdist_gzip import SdistGzip
from variantwheel_selector.source_archive import SOURCE_ARCHIVE
from variantwheel_selector.wheel_file import make_readable
from variantwheel_selector.wheel_name import escape_project

_PARTS = ("PKG-INFO", "_selector", "payload", "pyproject.toml", SOURCE_ARCHIVE)
_LEFT_OUT = ("__pycache__",)
_ZIP_END, _ZIP_END_PLACE = b"PK\5\6", (1 << 16) + 22
"""How a zip archive's end begins, and how far from a file's end readers look for it."""


def pack_sdist(root: Path, manifest: Manifest, folder: Path) -> str:
    """Write `NAME-VERSION.tar.gz` and return its name.

    Args:
        root: Holds what the archive holds below `NAME-VERSION/`.
        manifest: Gives name and version.
        folder: Where the archive goes.

    Raises:
        ManifestError: The folder is no complete sdist.
    """
    stem = f"{escape_project(manifest.name)}-{manifest.version}"
    for part in _PARTS[:-1]:
        if not (root / part).exists():
            raise ManifestError(f"{part!r} is missing, this is no complete selector sdist")
    epoch = _modification_time(root)
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "w+b") as file:
            _pack(root, stem, file, epoch, stores=True)
            # pip 23 and older would take it for a zip archive.
            file.seek(-min(file.tell(), _ZIP_END_PLACE), os.SEEK_END)
            if _ZIP_END in file.read():
                file.seek(0)
                file.truncate()
                _pack(root, stem, file, epoch, stores=False)
            make_readable(file.fileno())
        Path(beside).replace(folder / f"{stem}.tar.gz")
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return f"{stem}.tar.gz"


def _pack(root: Path, stem: str, file: BinaryIO, epoch: int, *, stores: bool) -> None:
    stream = SdistGzip(file, epoch)
    writable = cast("BinaryIO", stream)  # all of it that tarfile uses
    with tarfile.open(fileobj=writable, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _files(root):
            stored = path.suffix in (".whl", ".gz") or path.name == SHARED_FILE
            stream.store(on=stores and stored, after=tarfile.BLOCKSIZE)
            _add(archive, path, f"{stem}/{path.relative_to(root).as_posix()}", epoch)
    stream.finish()


def _files(root: Path) -> Iterator[Path]:
    for part in _PARTS:
        top = root / part
        found = [top] if top.is_file() else sorted(top.rglob("*"))
        for path in found:
            if path.is_file() and not set(path.relative_to(root).parts) & set(_LEFT_OUT):
                yield path


def _add(archive: tarfile.TarFile, path: Path, name: str, epoch: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = path.stat().st_size
    member.mtime = epoch
    member.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    with path.open("rb") as content:
        archive.addfile(member, content)


def _modification_time(root: Path) -> int:
    """Return SOURCE_DATE_EPOCH, or the time that the unpacked PKG-INFO was given."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    return int(stated) if stated.isdigit() else int((root / "PKG-INFO").stat().st_mtime)
