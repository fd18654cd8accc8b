"""Servers that send what was packed beforehand, whatever they were asked for."""

import contextlib
import gzip
import http.client
import io
import zlib
from collections.abc import Callable
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.selector.served_payload import Place
from unit.selector.tiny_release import make_machine
from variantwheel_selector.errors import DownloadError, ReleaseError
from variantwheel_selector.fetching.content_coding import unpacked_answer
from variantwheel_selector.fetching.web import stated_length
from variantwheel_selector.release_source import release_from_index

PAGE = "/simple/tiny-native/"


def raw_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "two streams": ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "nothing": ("identity", bytes),
    "cut in pieces": ("aws-chunked", bytes),
    "both": ("aws-chunked, gzip", gzip.compress),
}


class Answer:
    """An answer whose reads are short."""

    status = 200

    def __init__(self, body: bytes, coding: str, most: int = 1 << 16) -> None:
        self.headers = Message()
        self.headers["Content-Encoding"] = coding
        self._body, self._most = io.BytesIO(body), most

    def read(self, size: int = -1) -> bytes:
        return self._body.read(min(size, self._most))

    def geturl(self) -> str:
        return "http://host.invalid/"


@pytest.mark.parametrize("kind", PACKED)
def test_pages_and_wheels_that_were_packed_beforehand(place: Place, kind: str) -> None:
    coding, pack = PACKED[kind]
    wheel = PAGE + place.wheel.filename
    page = place.published.with_name("index.html")
    for path, file in ((PAGE, page), (wheel, place.published)):
        place.faults.replace[path] = pack(file.read_bytes())
        place.faults.codings[path] = coding
    assert place.fetch() == place.data()


def test_a_wheel_of_which_a_server_says_wrongly_that_it_packed_it(place: Place) -> None:
    place.faults.codings[PAGE + place.wheel.filename] = "gzip"
    place.faults.break_after = [100]
    assert place.fetch() == place.data()


def test_a_packed_wheel_whose_connection_breaks_is_fetched_anew(place: Place) -> None:
    wheel = PAGE + place.wheel.filename
    place.faults.replace[wheel] = gzip.compress(place.data())
    place.faults.codings[wheel] = "gzip"
    place.faults.break_after = [100]
    place.faults.break_pages = [10]
    assert place.fetch() == place.data()
    assert place.faults.ranges_served == []


def test_a_packed_wheel_of_another_size_is_refused(place: Place) -> None:
    wheel = PAGE + place.wheel.filename
    place.faults.codings[wheel] = "gzip"
    place.faults.replace[wheel] = gzip.compress(place.data() + b"x")
    with pytest.raises(DownloadError, match="the server sends more"):
        place.fetch()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
def test_an_archive_is_the_file_that_was_packed_or_not(
    place: Place, pack: Callable[[bytes], bytes]
) -> None:
    """Of `.tar.gz` some servers say that it was sent as gzip, and mean its name."""
    archive = place.release.archive(place.published.parent)
    place.published.with_name("index.html").write_text(f'<a href="{archive.name}">x</a>')
    place.faults.replace[PAGE + archive.name] = pack(archive.read_bytes())
    place.faults.codings[PAGE + archive.name] = "x-gzip"
    place.faults.break_after = [20, 200]
    found = release_from_index(place.index, "tiny-native", None, make_machine(), {})
    assert place.wheel.filename in found.hashes


@pytest.mark.parametrize(
    ("coding", "body", "words"),
    [
        ("br", b"x", r"the server sends it packed as 'br', although asked not to; it must serve"),
        ("gzip, gzip", b"x", "packed as 'gzip, gzip'"),
        ("gzip", b"<a>", "sends it packed as 'gzip', and what it sends is not: "),
        ("deflate", b"\xff<a>", "sends it packed as 'deflate', and what it sends is not: "),
        ("gzip", gzip.compress(b"x" * 100, mtime=0)[:-9], "the answer broke off"),
    ],
)
def test_packed_pages_that_cannot_be_read(
    place: Place, coding: str, body: bytes, words: str
) -> None:
    place.faults.codings[PAGE] = coding
    place.faults.replace[PAGE] = body
    with pytest.raises(DownloadError, match=words):
        place.fetch(PIP_RETRIES="0")
    with pytest.raises(ReleaseError, match=words):
        release_from_index(place.index, "tiny-native", None, make_machine(), {"PIP_RETRIES": "0"})


def test_a_page_that_would_fill_the_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.faults.codings[PAGE] = "gzip"
    place.faults.replace[PAGE] = gzip.compress(bytes(10_000_000))
    monkeypatch.setattr("variantwheel_selector.simple_index.PAGE_LIMIT", 1_000_000)
    with pytest.raises(DownloadError, match="is larger than 1000000 bytes"):
        place.fetch()


@pytest.mark.parametrize(
    ("stated", "length"),
    [("12", 12), ("", None), ("-1", None), ("²", None), ("9" * 5000, None), ("1, 1", None)],
)
def test_lengths_that_servers_state(stated: str, length: int | None) -> None:
    answer = Answer(b"", "")
    answer.headers["Content-Length"] = stated
    assert stated_length(answer) == length


@given(
    data=st.binary(max_size=2000),
    kind=st.sampled_from(sorted(PACKED)),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    most=st.integers(1, 50),
)
def test_whatever_was_packed_is_read_again(
    data: bytes, kind: str, sizes: list[int], most: int
) -> None:
    coding, pack = PACKED[kind]
    answer = unpacked_answer(Answer(pack(data), coding, most), "http://host.invalid/")
    found, turn = b"", 0
    while part := answer.read(sizes[turn % len(sizes)]):
        assert len(part) <= sizes[turn % len(sizes)]
        found, turn = found + part, turn + 1
    assert found == data


@given(body=st.binary(max_size=300), coding=st.sampled_from(["gzip", "deflate"]))
def test_bytes_that_may_not_be_packed_at_all(body: bytes, coding: str) -> None:
    with contextlib.suppress(DownloadError, http.client.IncompleteRead):
        unpacked_answer(Answer(body, coding), "http://host.invalid/").read(1000)
