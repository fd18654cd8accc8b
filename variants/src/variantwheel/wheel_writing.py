"""Writing wheels: reproducibly, as small as libdeflate makes them, with a fresh RECORD."""

from __future__ import annotations

import io
import time
import zipfile
import zlib
from pathlib import Path

import deflate

from variantwheel.atomic_file import replace_file
from variantwheel.errors import WheelFormatError
from variantwheel.wheel_archive import WheelArchive, render_record

_UNSIGNED = ("RECORD.jws", "RECORD.p7s")
# The zip format knows no earlier date.
_EARLIEST_ZIP_TIME = 315532800
_SMALLEST = 12
"""libdeflate's highest level."""
_LONGEST = 1 << 30
"""Bytes; what is longer might need the fields of zip64, and goes through zipfile as a whole."""


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
