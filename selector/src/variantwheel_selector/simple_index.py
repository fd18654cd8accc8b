"""Reads a project's page of a simple repository: JSON (PEP 691) or HTML (PEP 503)."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from variantwheel_selector.errors import ReleaseError, TemporaryDownloadError
from variantwheel_selector.fetching.content_coding import begins_as_archive, unpacked_answer
from variantwheel_selector.fetching.retry_after import pause_seconds
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.fetching.web import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    NETWORK_ERRORS,
    WebClient,
    may_answer,
    stated_length,
)
from variantwheel_selector.index_hashes import Hashes, difference, fragment_hashes, judged_hashes
from variantwheel_selector.record import record
from variantwheel_selector.strict_json import JsonNode, parse_json
from variantwheel_selector.wheel_name import normalize_project

PAGE_LIMIT = 32 * 1024 * 1024
"""The most bytes of a page that are read."""
FILE_LIMIT = 512 * 1024 * 1024
"""The most bytes of a file that are read; public indexes stop at a fifth of it."""
NAMES_LIMIT = 4 * 1024 * 1024
"""The most bytes of an index's list of projects; those of public indexes are not read."""

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, "
    "application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
)


@record
class IndexFile:
    """A file that an index lists.

    Attributes:
        filename: Without folders.
        url: Absolute, without fragment.
        hashes: Those that the index states and that can be compared.
        requires_python: As the index states it, or the empty string.
        yanked: Why the publisher took it back, empty without a reason; none if it was
            not (PEP 592).
        refusal: Why it must not be fetched, or the empty string.
    """

    filename: str
    url: str
    hashes: Hashes = ()
    requires_python: str = ""
    yanked: str | None = None
    refusal: str = ""

    @property
    def sha256(self) -> str | None:
        """Its SHA-256 in hexadecimal, or none if the index states none."""
        return dict(self.hashes).get("sha256")


def fetch_project(index: str, project: str, client: WebClient) -> list[IndexFile]:
    """Return the files that an index lists for a project.

    Args:
        index: The index's URL, such as `https://example.org/simple`.
        project: In any spelling.
        client: Opens it.

    Raises:
        DownloadError: The page cannot be had.
        ReleaseError: It cannot be understood.
    """
    client.keep_index(index)
    return fetch_page(f"{index.rstrip('/')}/{normalize_project(project)}/", client)


def fetch_page(url: str, client: WebClient) -> list[IndexFile]:
    """Return the files that one page lists, of an index or of find-links.

    Args:
        url: As configured: a login in it serves its origin from now on.
        client: Opens it.

    Raises:
        DownloadError: The page cannot be had.
        ReleaseError: It cannot be understood.
    """
    content, content_type, base = _fetch(client.login(url), _ACCEPT, PAGE_LIMIT, client)
    if content_type.endswith("json"):
        return parse_json_page(content, base)
    return parse_html_page(content.decode("utf-8", errors="replace"), base)


def fetch_project_names(index: str, client: WebClient) -> list[str]:
    """Return the projects that an index lists, as it spells them.

    Raises:
        DownloadError: The list cannot be had.
        ReleaseError: It is very long, or cannot be understood.
    """
    client.keep_index(index)
    url = client.login(f"{index.rstrip('/')}/")
    content, content_type, base = _fetch(url, _ACCEPT, NAMES_LIMIT, client)
    if content_type.endswith("json"):
        root = parse_json(content, redacted(base), ReleaseError)
        members = root.object(("projects",), ignore_unknown=True)
        return [
            node.object(("name",), ignore_unknown=True)["name"].string()
            for node in members["projects"].elements()
        ]
    # The texts of the links may be anything; where they lead to is what installers ask for.
    anchors = _anchors(content.decode("utf-8", errors="replace"), base)
    paths = [_path(attributes["href"]) for attributes in anchors]
    folders = [path.removesuffix("/").rpartition("/") for path in paths if path.endswith("/")]
    above = _path(base).removesuffix("/")
    return [name for parent, _, name in folders if parent.startswith(above) and name]


def fetch_file(url: str, client: WebClient) -> bytes:
    """Return a file, such as a variants.json or a selector sdist.

    Raises:
        DownloadError: It cannot be had.
        ReleaseError: It is too large.
    """
    return _fetch(url, "*/*", FILE_LIMIT, client)[0]


def fetch_listed_file(file: IndexFile, client: WebClient) -> bytes:
    """Return a file that a page lists, if it is what the page promises.

    Raises:
        DownloadError: It cannot be had.
        ReleaseError: It is too large or another one, or must not be fetched.
    """
    if file.refusal:
        raise ReleaseError(f"{redacted(file.url)} is refused: {file.refusal}")
    content = fetch_file(file.url, client)
    algorithm = difference(file.hashes, content)
    if algorithm:
        raise ReleaseError(
            f"{redacted(file.url)} is not what the index promises: its {algorithm} differs"
        )
    return content


def parse_json_page(content: bytes, base: str) -> list[IndexFile]:
    """Read a page of PEP 691: `{"meta": …, "name": …, "files": [{"filename", "url", …}]}`."""
    root = parse_json(content, redacted(base), ReleaseError)
    members = root.object(("files",), ("meta",), ignore_unknown=True)
    if "meta" in members:
        meta = members["meta"].object(("api-version",), ignore_unknown=True)
        _check_version(meta["api-version"].string(), base)
    return [_file_from_node(node, base) for node in members["files"].elements()]


def parse_html_page(text: str, base: str) -> list[IndexFile]:
    """Read a page of PEP 503.

    A line of it looks like this::

        <a href="../a-1.0-py3-none-any.whl#sha256=0123…" data-requires-python="&gt;=3.10">a</a>
    """
    return [_file_from_anchor(attributes, base) for attributes in _anchors(text, base)]


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: list[dict[str, str]] = []
        self.base: str | None = None
        self.version = "1.0"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a" and attributes.get("href"):
            self.anchors.append(attributes)
        if tag == "base" and self.base is None:
            self.base = attributes.get("href")
        if tag == "meta" and attributes.get("name") == "pypi:repository-version":
            self.version = attributes.get("content", "")


def _anchors(text: str, base: str) -> list[dict[str, str]]:
    """Return the attributes of the links of an HTML page, each with an absolute `href`.

    Links are seen from the first `<base>` of the page, as installers and browsers see them.
    """
    parser = _Anchors()
    try:
        parser.feed(text)
    except AssertionError as error:
        # So Python's parser refuses declarations that it does not know, such as `<![x`.
        raise ReleaseError(f"{redacted(base)} is no HTML page that can be read: {error}") from error
    _check_version(parser.version, base)
    seen_from = _join(base, parser.base or "")
    return [item | {"href": _join(seen_from, item["href"])} for item in parser.anchors]


def _check_version(version: str, base: str) -> None:
    """Refuse a page of another major version, which may mean something else (PEP 629)."""
    if version.partition(".")[0] != "1":
        raise ReleaseError(
            f"{redacted(base)} is a page of repository version {version!r}; this selector reads "
            "1.x, a newer one may read it"
        )


def _file_from_anchor(attributes: Mapping[str, str], base: str) -> IndexFile:
    url, fragment = urllib.parse.urldefrag(attributes["href"])
    hashes, refusal = judged_hashes(fragment_hashes(fragment))
    return IndexFile(
        filename=_filename(url),
        url=url,
        hashes=hashes,
        requires_python=attributes.get("data-requires-python", ""),
        yanked=attributes.get("data-yanked"),
        refusal=_leads_here(url, base) or refusal,
    )


def _file_from_node(node: JsonNode, base: str) -> IndexFile:
    members = node.object(
        ("filename", "url"), ("hashes", "requires-python", "yanked"), ignore_unknown=True
    )
    stated = members["hashes"].members() if "hashes" in members else {}
    hashes, refusal = judged_hashes((name, str(item.value)) for name, item in stated.items())
    url = _join(base, members["url"].string())
    requires: Any = members["requires-python"].value if "requires-python" in members else None
    # PEP 691: what is true, or the reason as text; an empty one says that it was not, as for pip.
    yanked: Any = members["yanked"].value if "yanked" in members else None
    return IndexFile(
        filename=members["filename"].string(),
        url=url,
        hashes=hashes,
        requires_python=requires if isinstance(requires, str) else "",
        yanked=None if not yanked else yanked if isinstance(yanked, str) else "",
        refusal=_leads_here(url, base) or refusal,
    )


def _leads_here(url: str, base: str) -> str:
    """Refuse files of this machine, unless it is the page's own; its server has no say in them."""
    is_file, may_be = (urllib.parse.urlsplit(each).scheme == "file" for each in (url, base))
    return "the page leads to a file of this machine" if is_file and not may_be else ""


def _join(base: str, link: str) -> str:
    try:
        return urllib.parse.urljoin(base, link)
    except ValueError as error:
        raise ReleaseError(
            f"{redacted(base)} holds the link {redacted(link)!r}, which is no URL: {error}"
        ) from error


def _filename(url: str) -> str:
    return _path(url).rpartition("/")[2]


def _path(url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path)


def _fetch(url: str, accept: str, limit: int, client: WebClient) -> tuple[bytes, str, str]:
    """Return content, content type and the URL after redirections.

    A server that is busy or breaks off is asked again, as pip does. One that is not there or does
    not answer is not: there may be another place.
    """
    pause = FIRST_PAUSE_SECONDS
    for left in range(client.access.retries, -1, -1):
        try:
            return _fetch_once(url, accept, limit, client)
        except TemporaryDownloadError as error:
            if not left or not may_answer(error):
                raise
            wait = pause_seconds(error, pause)
        time.sleep(wait)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
    raise AssertionError  # the last attempt returns or raises


def _fetch_once(url: str, accept: str, limit: int, client: WebClient) -> tuple[bytes, str, str]:
    try:
        with client.open(url, {"Accept": accept}) as answer:
            is_plain = begins_as_archive if _filename(url).endswith(".gz") else None
            response = unpacked_answer(answer, url, is_plain)
            content = response.read(limit + 1)
            content_type = response.headers.get_content_type()
            length = stated_length(response)
            final = response.geturl()
    except NETWORK_ERRORS as error:
        raise TemporaryDownloadError(
            f"cannot read {redacted(url)}: the answer broke off"
        ) from error
    if len(content) > limit:
        raise ReleaseError(f"{redacted(url)} is larger than {limit} bytes")
    if length is not None and len(content) < length:
        raise TemporaryDownloadError(
            f"cannot read {redacted(url)}: the answer broke off after {len(content)} of "
            f"{length} bytes"
        )
    return content, content_type, final
