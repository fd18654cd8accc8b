"""gzip streams of which parts are stored: any reader gets the same bytes back."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import zipfile
import zlib

from hypothesis import given
from hypothesis import strategies as st

from variantwheel_selector.sdist_gzip import SdistGzip

PART = st.tuples(st.booleans(), st.binary(max_size=64), st.integers(1, 3000))


def packed(parts: list[tuple[bool, bytes]], after: int = 0) -> bytes:
    file = io.BytesIO()
    stream = SdistGzip(file, 1_700_000_000)
    for stores, data in parts:
        stream.store(on=stores, after=after)
        stream.write(data)
    assert stream.tell() == sum(len(data) for _, data in parts)
    stream.finish()
    return file.getvalue()


@given(st.lists(PART, max_size=8))
def test_what_is_written_comes_back(parts: list[tuple[bool, bytes, int]]) -> None:
    written = [(stores, data * times) for stores, data, times in parts]
    found = packed(written)
    assert found == packed(written)
    assert gzip.decompress(packed(written, after=7)) == gzip.decompress(found)
    content = b"".join(data for _, data in written)
    assert gzip.decompress(found) == content
    # One member alone, for readers that stop after the first.
    reader = zlib.decompressobj(31)
    assert reader.decompress(found) == content
    assert reader.eof
    assert not reader.unused_data


def test_other_readers_accept_it() -> None:
    random_bytes = hashlib.shake_128(b"x").digest(300_000)
    found = packed([(False, b"text " * 999), (True, random_bytes), (False, b"end")])
    done = subprocess.run(["gzip", "-dc"], input=found, check=True, capture_output=True, timeout=60)
    assert done.stdout == b"text " * 999 + random_bytes + b"end"
    assert random_bytes[: 1 << 15] in found


def test_no_reader_takes_an_sdist_for_a_zip_archive() -> None:
    """pip 23 and older look into the file before they look at its name."""
    for size in (0, 100, 5_000, 100_000):
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("data.bin", os.urandom(size))
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w") as packing:
            member = tarfile.TarInfo("payload/x.whl")
            member.size = len(wheel.getvalue())
            packing.addfile(member, io.BytesIO(wheel.getvalue()))
        # The header and the wheel, with its padding; then such a pair again, and the end.
        content = whole.getvalue()[: 512 + -(-member.size // 512) * 512]
        end = b"\0" * 1024
        found = packed([(True, content), (True, content), (False, end)], after=512)
        assert gzip.decompress(found) == content * 2 + end
        assert not zipfile.is_zipfile(io.BytesIO(found))
