"""Downloads one file of known size and hash; a broken connection goes on where it broke."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from variantwheel_selector.errors import (
    DownloadError,
    TemporaryDownloadError,
    UnwritableError,
)
from variantwheel_selector.fetching.content_coding import begins_as_zip, unpacked_answer
from variantwheel_selector.fetching.retry_after import pause_seconds
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.fetching.web import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    NETWORK_ERRORS,
    Response,
    WebClient,
    stated_length,
)
from variantwheel_selector.manifest import PayloadWheel
from variantwheel_selector.wheel_file import make_readable

_CHUNK = 1 << 18


def download(client: WebClient, url: str, wheel: PayloadWheel, target: Path) -> None:
    """Write a wheel to `target`, which exists only once the bytes proved to be the promised ones.

    Raises:
        DownloadError: It cannot be had, or is another file.
        UnwritableError: It cannot be written.
    """
    try:
        descriptor, beside = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".part")
    except OSError as error:
        raise _cannot_write(target, wheel, error) from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            _Transfer(client, url, wheel, file, target).run()
            make_readable(file.fileno())
        Path(beside).replace(target)
    except OSError as error:
        raise _cannot_write(target, wheel, error) from error
    finally:
        Path(beside).unlink(missing_ok=True)


@dataclass
class _Transfer:
    """A download under way: what has been written stays when the connection breaks."""

    client: WebClient
    url: str
    wheel: PayloadWheel
    file: BinaryIO
    target: Path
    written: int = 0
    validator: str | None = None

    def run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(self.client.access.retries + 1):
            try:
                self._receive()
                break
            except TemporaryDownloadError as error:
                if attempt == self.client.access.retries:
                    raise DownloadError(
                        f"cannot read {redacted(self.url)}: the connection broke "
                        f"{attempt + 1} times, at last after {self.written} of "
                        f"{self.wheel.size} bytes: {error}"
                    ) from error
                wait = pause_seconds(error, pause)
            time.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        self._verify()

    def _receive(self) -> None:
        headers = {"Accept": "*/*"}
        if self.written and self.validator is not None:
            headers |= {"Range": f"bytes={self.written}-", "If-Range": self.validator}
        with self.client.open(self.url, headers) as answer:
            response = unpacked_answer(answer, self.url, begins_as_zip)
            self._continue(response)
            while self.written < self.wheel.size:
                try:
                    # One byte too many is enough to see that the file is another one.
                    chunk = response.read(min(_CHUNK, self.wheel.size - self.written))
                except NETWORK_ERRORS as error:
                    raise TemporaryDownloadError(str(error) or type(error).__name__) from error
                if not chunk:
                    raise TemporaryDownloadError("it ended early")
                self._write(chunk)
            self._expect_end(response)

    def _continue(self, response: Response) -> None:
        """Go on at the place where the answer begins, or from the start."""
        expected = f"bytes {self.written}-{self.wheel.size - 1}/{self.wheel.size}"
        if response.status == 206 and response.headers.get("Content-Range") == expected:
            return
        if response.status == 206:
            self.validator = None
            raise TemporaryDownloadError("the server continued at another place")
        length = stated_length(response)
        if length not in (None, self.wheel.size):
            raise self._other_file(f"the server offers {length} bytes")
        self.validator = _strong_validator(response)
        self.written = 0
        self.file.seek(0)
        self.file.truncate()

    def _expect_end(self, response: Response) -> None:
        try:
            more = response.read(1)
        except NETWORK_ERRORS:
            return  # all promised bytes are here, and the hash decides
        if more:
            raise self._other_file("the server sends more")

    def _write(self, chunk: bytes) -> None:
        try:
            self.file.write(chunk)
            self.written += len(chunk)
        except OSError as error:
            raise _cannot_write(self.target, self.wheel, error) from error

    def _verify(self) -> None:
        try:
            self.file.flush()
        except OSError as error:
            raise _cannot_write(self.target, self.wheel, error) from error
        self.file.seek(0)
        digest = hashlib.sha256()
        while chunk := self.file.read(_CHUNK):
            digest.update(chunk)
        if digest.hexdigest() != self.wheel.sha256:
            raise self._other_file(f"its sha256 is {digest.hexdigest()}")

    def _other_file(self, found: str) -> DownloadError:
        return DownloadError(
            f"{redacted(self.url)} is not the released file: {found}; "
            f"expected {self.wheel.size} bytes, sha256 {self.wheel.sha256}"
        )


def _strong_validator(response: Response) -> str | None:
    """Return what `If-Range` may hold (RFC 9110): without it, a changed file would be mixed up."""
    tag = response.headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        return str(tag)
    modified = response.headers.get("Last-Modified")
    return None if modified is None else str(modified)


def _cannot_write(target: Path, wheel: PayloadWheel, error: OSError) -> UnwritableError:
    return UnwritableError(
        f"cannot write {wheel.filename} into {str(target.parent)!r}: {error.strerror or error}; "
        f"{wheel.size} bytes are needed there"
    )
