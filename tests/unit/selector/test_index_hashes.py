"""The hashes that an index's page states of a file are compared with it, whichever they are."""

import hashlib
import json
from pathlib import Path

import pytest

from variantwheel_selector.errors import ReleaseError
from variantwheel_selector.fetching.payload_search import make_client
from variantwheel_selector.fetching.sources import configured_sources
from variantwheel_selector.simple_index import fetch_listed_file, parse_html_page, parse_json_page

GOOD = hashlib.sha512(b"content").hexdigest()


@pytest.mark.parametrize(
    ("name", "digest", "words"),
    [
        ("sha512", GOOD, ""),
        ("SHA512", GOOD.upper(), ""),
        ("md5", hashlib.md5(b"content", usedforsecurity=False).hexdigest(), ""),
        ("blake2b", hashlib.blake2b(b"content").hexdigest(), ""),
        ("sha512", GOOD[::-1], "not what the index promises: its sha512 differs"),
        ("sha256", "A" * 64, "not what the index promises: its sha256 differs"),
        ("sha256", "A" * 63, "states 'A+' as its sha256, which cannot be one"),
        ("sha3_256", "", "states '' as its sha3_256, which cannot be one"),
        ("shake_128", "a" * 32, "states no hash of it but 'shake_128'; known here are blake2b, "),
        ("sha-512", GOOD, "states no hash of it but 'sha-512'"),
    ],
)
@pytest.mark.parametrize("form", ["html", "json"])
def test_whatever_hash_a_page_states_is_compared(
    tmp_path: Path, form: str, name: str, digest: str, words: str
) -> None:
    (tmp_path / "a-1.tar.gz").write_bytes(b"content")
    base = f"{tmp_path.as_uri()}/"
    entry = {"filename": "a-1.tar.gz", "url": "a-1.tar.gz", "hashes": {name: digest}}
    files = (
        parse_html_page(f'<a href="a-1.tar.gz#egg=a&amp;{name}={digest}">a</a>', base)
        if form == "html"
        else parse_json_page(json.dumps({"files": [entry]}).encode(), base)
    )
    client = make_client(configured_sources({}), {})
    if words:
        with pytest.raises(ReleaseError, match=words):
            fetch_listed_file(files[0], client)
    else:
        assert fetch_listed_file(files[0], client) == b"content"


def test_of_several_hashes_all_have_to_be_right_but_those_that_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a-1.tar.gz").write_bytes(b"content")
    text = '<a href="a-1.tar.gz#{}">a</a>'
    client = make_client(configured_sources({}), {})
    for fragment, refused in (
        (f"sha512={GOOD}&sha-256={'0' * 64}", False),
        (f"sha512={GOOD}&sha256={'0' * 64}", True),
    ):
        (file,) = parse_html_page(text.format(fragment), f"{tmp_path.as_uri()}/")
        if refused:
            with pytest.raises(ReleaseError, match="its sha256 differs"):
                fetch_listed_file(file, client)
        else:
            assert fetch_listed_file(file, client) == b"content"
