"""Opens the archive of an sdist, without taking the memory that a hostile one asks for."""

from __future__ import annotations

import tarfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
"""Members that say more of the next one; `tarfile` reads each whole, twice."""
_HEADER_LIMIT = 1 << 20


class _Member(tarfile.TarInfo):
    """A member whose headers are of a size that a name may have."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADERS and member.size > _HEADER_LIMIT:
            raise tarfile.ReadError(
                f"a header in it has {member.size} bytes, {_HEADER_LIMIT} are the most"
            )
        return member


def open_sdist(file: BinaryIO) -> tarfile.TarFile:
    """Open a `.tar.gz`, whose members are then gone through one after the other.

    Raises:
        TarError: It is none.
    """
    return tarfile.open(fileobj=file, mode="r:gz", tarinfo=_Member)
