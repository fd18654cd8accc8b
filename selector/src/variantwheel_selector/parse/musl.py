"""The version of musl, from the files that a program needs to run with it."""

from __future__ import annotations

import re
import struct

_VERSION = re.compile(rb"\x00(1\.[0-9]{1,2})\.[0-9]{1,3}(?:-[^\x00]{0,64})?\x00")
_PT_INTERP = 3
_LONGEST_PATH = 4096


def elf_interpreter(data: bytes) -> str | None:
    """Return the path of the dynamic linker that the beginning of an ELF file names.

    Args:
        data: The file's first bytes; the names stand near the beginning.
    """
    if data[:4] != b"\x7fELF" or data[4:5] not in (b"\x01", b"\x02") or data[5:6] != b"\x01":
        return None
    wide = data[4] == 2
    try:
        table, size, count = (
            (*struct.unpack_from("<Q", data, 0x20), *struct.unpack_from("<HH", data, 0x36))
            if wide
            else (*struct.unpack_from("<I", data, 0x1C), *struct.unpack_from("<HH", data, 0x2A))
        )
        for index in range(count):
            place = table + index * size
            if struct.unpack_from("<I", data, place)[0] != _PT_INTERP:
                continue
            offset = struct.unpack_from("<Q" if wide else "<I", data, place + (8 if wide else 4))[0]
            path = data[offset : offset + _LONGEST_PATH].partition(b"\x00")[0]
            return path.decode("ascii")
    except (struct.error, UnicodeDecodeError, OverflowError):
        return None
    return None


def musl_version(data: bytes) -> str | None:
    """Return `musl 1.2` from the bytes of musl's dynamic linker; none for any other file."""
    if b"musl libc" not in data:
        return None
    match = re.search(_VERSION, data)
    return f"musl {match[1].decode('ascii')}" if match else None
