"""Unpacks answers that come packed although nobody asked for it.

Storage with files that were packed beforehand sends them so, whatever `Accept-Encoding` says.
Source: RFC 9110, 8.4 (Content-Encoding); gzip is RFC 1952, "deflate" RFC 1950 or, of some, 1951.
"""

from __future__ import annotations

import http.client
import zlib
from collections.abc import Callable

from variantwheel_selector.errors import DownloadError
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.fetching.web import Response, stated_length

_CHUNK = 1 << 16
_GZIP = ("gzip", "x-gzip")
_GZIP_BEGIN = b"\x1f\x8b"
# How an upload was cut in pieces, which some storage repeats to whoever downloads.
_NOTHING = ("", "identity", "aws-chunked")
_OF_PACKED = ("Content-Encoding", "Content-Length", "Content-Range", "ETag", "Last-Modified")
_ANY_HEADER, _NO_HEADER = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS


def unpacked_answer(
    response: Response, url: str, is_plain: Callable[[bytes], bool] | None = None
) -> Response:
    """Return an answer that reads as what its server packed.

    Of one that was packed, the header fields about length, range and tags are gone: they are those
    of the packed bytes.

    Args:
        response: Nothing was read of it yet.
        url: For messages.
        is_plain: Tells by how the content begins that it was not packed, whatever the server says.

    Raises:
        DownloadError: It is packed in a way that cannot be undone here.
    """
    coding = _coding(response, url)
    return _Unpacked(response, url, coding, is_plain) if coding else response


def begins_as_zip(content: bytes) -> bool:
    """Tell whether a wheel begins so."""
    return content.startswith(b"PK")


def begins_as_archive(content: bytes) -> bool:
    """Tell whether a `.tar.gz` begins so: of many that are served, gzip means their name."""
    try:
        inside = zlib.decompressobj(_ANY_HEADER).decompress(content, len(_GZIP_BEGIN))
    except zlib.error:
        return True  # whoever reads it says what it is
    return inside != _GZIP_BEGIN


def _coding(response: Response, url: str) -> str:
    """Return how an answer is packed, the empty string if it is not."""
    stated = response.headers.get_all("Content-Encoding") or []
    words = [word.strip().lower() for text in stated for word in str(text).split(",")]
    codings = [word for word in words if word not in _NOTHING]
    if not codings:
        return ""
    if len(codings) > 1 or codings[0] not in (*_GZIP, "deflate"):
        raise DownloadError(
            f"cannot read {redacted(url)}: the server sends it packed as {', '.join(codings)!r}, "
            "although asked not to; it must serve the file as it is, or as gzip"
        )
    return codings[0]


class _Unpacked:
    """An answer that is unpacked as it is read, so that no more is made than is asked for."""

    def __init__(
        self,
        response: Response,
        url: str,
        coding: str,
        is_plain: Callable[[bytes], bool] | None,
    ) -> None:
        self.status = response.status
        self.headers = response.headers
        self._missing = stated_length(response) or 0
        for name in _OF_PACKED:
            del self.headers[name]
        self._response, self._url, self._coding, self._tell = response, url, coding, is_plain
        self._waiting = b""
        self._begun = self._is_plain = False
        self._window = _ANY_HEADER
        self._unpacking = zlib.decompressobj(self._window)

    def _begin(self) -> None:
        """Look at how the content begins."""
        self._begun = True
        self._waiting = self._beginning(b"")
        self._is_plain = self._tell is not None and self._tell(self._waiting)
        if self._coding == "deflate" and not _has_zlib_header(self._waiting):
            self._window = _NO_HEADER
            self._unpacking = zlib.decompressobj(self._window)

    def geturl(self) -> str:
        return self._response.geturl()

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        left = size
        while left > 0 and (part := self._part(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _part(self, most: int) -> bytes:
        """Return some bytes, none at the end."""
        if not self._begun:
            self._begin()
        while not self._ended():
            packed = self._waiting or self._receive()
            if self._is_plain:
                self._waiting = packed[most:]
                return packed[:most]
            try:
                part = self._unpacking.decompress(packed, most)
            except zlib.error as error:
                raise DownloadError(
                    f"cannot read {redacted(self._url)}: the server says that it sends it packed "
                    f"as {self._coding!r}, and what it sends is not: {error}"
                ) from error
            self._waiting = self._unpacking.unconsumed_tail
            if part:
                return part
            if not packed and not self._unpacking.eof:
                raise http.client.IncompleteRead(b"")
        return b""

    def _ended(self) -> bool:
        """Tell whether the end is reached; gzip may go on with another stream after one."""
        if not self._unpacking.eof:
            return False
        rest = self._beginning(self._unpacking.unused_data)
        if self._coding not in _GZIP or not rest.startswith(_GZIP_BEGIN):
            return True  # what else follows is passed over, as other readers do
        self._waiting, self._unpacking = rest, zlib.decompressobj(self._window)
        return False

    def _beginning(self, begin: bytes) -> bytes:
        """Return the next packed bytes, enough of them to tell what they are."""
        while len(begin) < len(_GZIP_BEGIN) and (more := self._receive()):
            begin += more
        return begin

    def _receive(self) -> bytes:
        """Return some packed bytes, none at the end."""
        packed = self._response.read(_CHUNK)
        self._missing -= len(packed)
        if not packed and self._missing > 0:
            raise http.client.IncompleteRead(packed, self._missing)
        return packed


def _has_zlib_header(content: bytes) -> bool:
    """Tell whether content begins as RFC 1950 says."""
    return content[:1] == b"\x78" and int.from_bytes(content[:2], "big") % 31 == 0
