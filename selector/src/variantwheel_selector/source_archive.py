"""`source.zip.gz` in a selector sdist: the project's own sources, for builds from source.

One file, compressed itself, because pip and uv unpack the whole sdist for every installation, and
hardly any of them builds from source. It is compressed as a whole, which makes it smaller than a
zip archive is by itself.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from variantwheel_selector.errors import PayloadError, SourceBuildError
from variantwheel_selector.payload import check_members
from variantwheel_selector.sdist_gzip import SdistGzip

SOURCE_ARCHIVE = "source.zip.gz"
"""Where the archive stands in the sdist."""

_OLDEST = (1980, 1, 1, 0, 0, 0)
_DAMAGES = (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError, ValueError)


class SourceFile(NamedTuple):
    """One file of a project's sources; its path is below their folder."""

    path: str
    data: bytes
    executable: bool = False


def pack_sources(files: Iterable[SourceFile]) -> bytes:
    """Return the archive of some files; the same ones always give the same bytes."""
    packed, compressed = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(files):
            info = zipfile.ZipInfo(file.path, _OLDEST)
            info.create_system = 3
            info.external_attr = (0o100755 if file.executable else 0o100644) << 16
            archive.writestr(info, file.data)
    stream = SdistGzip(compressed, 0)
    stream.write(packed.getvalue())
    stream.finish()
    return compressed.getvalue()


def unpack_sources(archive_path: Path, folder: Path) -> None:
    """Unpack the archive into a new folder.

    Raises:
        SourceBuildError: There is none, or it is damaged or holds what could be written elsewhere.
    """
    try:
        packed = io.BytesIO(gzip.decompress(archive_path.read_bytes()))
        with zipfile.ZipFile(packed) as archive:
            for path, info in check_members(archive, SOURCE_ARCHIVE).items():
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(info))
                target.chmod(0o755 if info.external_attr >> 16 & 0o100 else 0o644)
    except FileNotFoundError as error:
        raise SourceBuildError(
            f"this sdist holds no {SOURCE_ARCHIVE}, it is incomplete; download it again"
        ) from error
    except (*_DAMAGES, PayloadError) as error:
        raise SourceBuildError(f"{SOURCE_ARCHIVE} is damaged: {error}") from error
