"""The end of a zip archive: its directory of members is read, and one listed file is added.

A wheel that is handed over gets one more file; everything before RECORD, its last member, stays as
it is. `zipfile` is a good part of an installation's time, so that archives of the plain form that
wheels have are read here. Of any other form nothing is said, and `zipfile` has to be asked.

Format: PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import binascii
import hashlib
import stat
import struct
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

MOST_MEMBERS = 100_000
LARGE = 64 << 20
MOST_EXPANSION = 200
"""How many bytes a byte of a large archive may become; fat GPU binaries reach a tenth of it."""
TEXT_LIMIT = 16 << 20

_END = struct.Struct("<4s4H2LH")
_ENTRY = struct.Struct("<4s4B4HL2L5H2L")
_HEADER = struct.Struct("<4s2B4HL2L2H")
_END_SIGNATURE, _ENTRY_SIGNATURE, _HEADER_SIGNATURE = b"PK\5\6", b"PK\1\2", b"PK\3\4"
_ZIP64_SIGNATURE, _ZIP64_SIZE = b"PK\6\7", 20
_TOO_MANY, _TOO_LARGE = 0xFFFF, 0xFFFFFFFF
"""From here on the numbers stand elsewhere (zip64)."""
_UTF8, _HARMLESS = 0x800, 0x800 | 0x8 | 0x6
"""Flags: names in UTF-8, sizes that follow the data too, how hard was compressed."""
_STORED, _DEFLATED = 0, 8
_VERSION, _UNIX, _MODE = 20, 3, 0o100644
_NEWEST = 63
"""The version of the format, in tenths, that `zipfile` reads."""


class Member:
    """One file of an archive as its directory describes it.

    Attributes:
        name: Its path.
        entry: Its bytes in the directory.
        method: How it is compressed.
        stamp: Time and date of its last change.
        crc: Of its content.
        packed: Bytes in the archive.
        size: Bytes of its content.
        offset: Where its header begins.
    """

    method: int
    crc: int
    packed: int
    size: int
    offset: int

    def __init__(self, directory: bytes, at: int) -> None:
        """Read the entry at a place of the directory.

        Raises:
            ValueError: It is damaged, or not of the plain form.
            struct.error: The directory ends before.
        """
        (
            signature, _, _, version, _, flags, self.method, time, date,
            self.crc, self.packed, self.size,
            length, extra, comment, disk, _, attributes, self.offset,
        ) = _ENTRY.unpack_from(directory, at)  # fmt: skip
        end = at + _ENTRY.size + length
        path = directory[at + _ENTRY.size : end]
        self.entry = directory[at:end]
        self.stamp = (time, date)
        self.name = path.decode("utf-8" if flags & _UTF8 else "ascii")
        if (
            signature != _ENTRY_SIGNATURE
            or len(path) != length
            or version > _NEWEST
            or flags & ~_HARMLESS
            or extra or comment or disk
            or _TOO_LARGE in (self.packed, self.size, self.offset)
            or stat.S_ISLNK(attributes >> 16)
            or is_unsafe(self.name)
        ):  # fmt: skip
            raise ValueError(self.name)

    @property
    def least_end(self) -> int:
        """Where it ends at the earliest; an extra field of its header may come in between."""
        return self.offset + _HEADER.size + len(self.entry) - _ENTRY.size + self.packed


def is_unsafe(member: str) -> bool:
    """Tell whether a member could be written outside of the folder that it is unpacked into."""
    parts = member.removesuffix("/").split("/")
    return (
        any(part in ("", ".", "..") for part in parts)
        or "\\" in member
        or "\0" in member
        or ":" in parts[0]
    )


def read_members(file: BinaryIO) -> list[Member] | None:
    """Return the members in the order of the directory, or none if the form is not the plain one.

    Plain means: each name is safe and occurs once, nothing is encrypted, linked or overlapping, nor
    expands without measure, and nothing stands between the directory and the file's end.
    """
    length = file.seek(0, 2)
    if not _END.size <= length < _TOO_LARGE:
        return None
    file.seek(length - _END.size)
    signature, disk, first, here, count, size, start, comment = _END.unpack(file.read(_END.size))
    if (
        (signature, disk, first, comment) != (_END_SIGNATURE, 0, 0, 0)
        or here != count
        or not 0 < count < min(_TOO_MANY, MOST_MEMBERS)
        or start + size != length - _END.size
    ):
        return None
    file.seek(start)
    directory = file.read(size)
    if directory[-_ZIP64_SIZE:].startswith(_ZIP64_SIGNATURE):
        return None
    members: list[Member] = []
    at = 0
    try:
        for _ in range(count):
            members.append(Member(directory, at))
            at += len(members[-1].entry)
    except (ValueError, struct.error):
        return None
    packed, unpacked = sum(m.packed for m in members), sum(m.size for m in members)
    sound = (
        at == size
        and len({member.name for member in members}) == count
        and max(member.least_end for member in members) <= start
        and packed <= start
        and (unpacked <= LARGE or unpacked <= packed * MOST_EXPANSION)
    )
    return members if sound else None


def add_listed(file: BinaryIO, dist_info: str, filename: str, content: bytes) -> bool:
    """Add a file to the wheel open in `file` and list it in RECORD, whose bytes it replaces.

    Args:
        file: The wheel, for reading and writing.
        dist_info: The folder that RECORD stands in and the new file goes to.
        filename: Of the new file.
        content: Of the new file.

    Returns:
        Whether it was done. Nothing has changed if the archive is not of the plain form, has such a
        file already, or does not end with RECORD and RECORD with itself.
    """
    members = read_members(file)
    if members is None:
        return False
    *others, record = members
    record_path, path = f"{dist_info}/RECORD", f"{dist_info}/{filename}"
    lines = _read_text(file, record) if record.name == record_path else None
    own = f"{record_path},,\n".encode()
    if (
        lines is None
        or not (lines == own or lines.endswith(b"\n" + own))
        or b'"' in lines
        or b"\r" in lines
        or any(member.least_end > record.offset or member.name == path for member in others)
    ):
        return False
    digest = record_hash(hashlib.sha256(content).digest())
    listed = f"{path},sha256={digest},{len(content)}\n".encode()
    entries = [member.entry for member in others]
    at = record.offset
    file.seek(at)
    for name, data in ((path, content), (record_path, lines[: -len(own)] + listed + own)):
        stored, entry = _packed(name, data, record.stamp, at)
        at += file.write(stored)
        entries.append(entry)
    directory = b"".join(entries)
    count = len(entries)
    end = _END.pack(_END_SIGNATURE, 0, 0, count, count, len(directory), at, 0)
    file.write(directory + end)
    file.truncate()
    file.flush()
    return True


def record_hash(digest: bytes) -> str:
    """Return a digest as RECORD writes it: URL-safe base64 without padding."""
    text = binascii.b2a_base64(digest, newline=False)
    return text.translate(bytes.maketrans(b"+/", b"-_"), b"=").decode("ascii")


def _read_text(file: BinaryIO, member: Member) -> bytes | None:
    """Return the content of a member, or none if it is damaged or too large."""
    if member.size > TEXT_LIMIT or member.method not in (_STORED, _DEFLATED):
        return None
    file.seek(member.offset)
    header = file.read(_HEADER.size)
    if len(header) != _HEADER.size or not header.startswith(_HEADER_SIGNATURE):
        return None
    name_length, extra_length = _HEADER.unpack(header)[-2:]
    if file.read(name_length) != member.name.encode("utf-8"):
        return None
    file.seek(extra_length, 1)
    data = file.read(member.packed)
    if member.method == _DEFLATED:
        try:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, TEXT_LIMIT)
        except zlib.error:
            return None
    return data if (len(data), zlib.crc32(data)) == (member.size, member.crc) else None


def _packed(name: str, data: bytes, stamp: tuple[int, int], offset: int) -> tuple[bytes, bytes]:
    """Return a new file as it stands in an archive, and its entry in the directory."""
    deflate = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    path = name.encode("ascii")
    both = (0, _DEFLATED, *stamp, zlib.crc32(data), len(body), len(data), len(path), 0)
    header = _HEADER.pack(_HEADER_SIGNATURE, _VERSION, 0, *both)
    entry = _ENTRY.pack(
        _ENTRY_SIGNATURE, _VERSION, _UNIX, _VERSION, 0, *both, 0, 0, 0, _MODE << 16, offset
    )
    return header + path + body, entry + path
