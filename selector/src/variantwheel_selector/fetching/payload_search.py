"""Finds one payload wheel by name, size and hash: in folders, in the cache, on indexes and pages.

The place does not matter for safety, since the sdist pins the hash: the first place that has the
very file is taken, nearest first.
"""

from __future__ import annotations

import hashlib
import os
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from variantwheel_selector.bounded_read import open_regular
from variantwheel_selector.errors import DownloadError, ReleaseError, UnwritableError
from variantwheel_selector.fetching.credentials import Credentials
from variantwheel_selector.fetching.download import download
from variantwheel_selector.fetching.hash_cache import HashCache, cache_folder
from variantwheel_selector.fetching.sources import PackageSources
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.fetching.web import WebClient
from variantwheel_selector.manifest import Manifest, PayloadWheel
from variantwheel_selector.simple_index import IndexFile, fetch_page, fetch_project

_CHUNK = 1 << 20


def make_client(sources: PackageSources, environment: Mapping[str, str]) -> WebClient:
    """Return the client for what the user configured."""
    credentials = Credentials(environment, keyring=sources.keyring)
    client = WebClient(sources.web, credentials)
    for url, login in sources.logins.items():
        credentials.remember(client.login(url), login)
    return client


@contextmanager
def found_payload(
    manifest: Manifest,
    wheel: PayloadWheel,
    sources: PackageSources,
    environment: Mapping[str, str],
) -> Iterator[Path]:
    """Give the path of a wheel that the manifest names, fetched if it is nowhere near.

    Args:
        manifest: The release.
        wheel: The one wheel that is wanted.
        sources: Where the user takes packages from.
        environment: Tells where the cache lies, and logins.

    Raises:
        DownloadError: It is nowhere; the text names each place and what to bring where.
        UnwritableError: It is somewhere, and there is no room for it.
    """
    search = _Search(manifest, wheel, sources, environment)
    cache = HashCache(cache_folder(environment) if sources.cache else None)
    near = search.in_folders() or search.in_cache(cache)
    if near is not None:
        yield near
        return
    target = cache.prepare(wheel.sha256, wheel.filename)
    if target is not None and search.fetched(target):
        yield target
        return
    with TemporaryDirectory(prefix="variantwheel-") as temporary:
        search.fetch(Path(temporary, wheel.filename))
        yield Path(temporary, wheel.filename)


@dataclass
class _Search:
    """One wheel, and what every place asked for it answered."""

    manifest: Manifest
    wheel: PayloadWheel
    sources: PackageSources
    environment: Mapping[str, str]
    answers: list[str] = field(default_factory=list)

    def in_folders(self) -> Path | None:
        """Look into folders of this machine."""
        folders = [self.sources.wheel_dir, *map(local_folder, self.sources.find_links)]
        for folder in filter(None, folders):
            path = folder / self.wheel.filename
            if self._is_right(path, f"folder {str(folder)!r}"):
                return path
        return None

    def in_cache(self, cache: HashCache) -> Path | None:
        """Look into the cache; a damaged file is removed, since nobody else would."""
        path = cache.find(self.wheel.sha256, self.wheel.filename)
        if path is None or self._is_right(path, "cache"):
            return path
        cache.drop(self.wheel.sha256, self.wheel.filename)
        return None

    def fetched(self, target: Path) -> bool:
        """Download the wheel into the cache; tell whether there is room for it.

        Raises:
            DownloadError: It is nowhere.
        """
        try:
            self.fetch(target)
        except UnwritableError:
            return False  # a home that is full, or over its quota, is no reason not to install
        return True

    def fetch(self, target: Path) -> None:
        """Download the wheel from the first index or page that has it.

        Raises:
            DownloadError: None has it.
            UnwritableError: One has it, and it cannot be written.
        """
        if self.sources.offline:
            self.answers.append("the network: forbidden by uv's setting 'offline'")
            raise self._nowhere()
        client = make_client(self.sources, self.environment)
        for place, url in self._links(client):
            try:
                download(client, url, self.wheel, target)
            except UnwritableError:
                raise
            except DownloadError as error:
                self.answers.append(f"{place}: {error}")
                continue
            return
        raise self._nowhere()

    def _links(self, client: WebClient) -> Iterator[tuple[str, str]]:
        """Give the URLs under which the wheel is listed, each with the place that lists it."""
        for place, page, is_index in self._pages():
            try:
                files = (
                    fetch_project(page, self.manifest.name, client)
                    if is_index
                    else fetch_page(page, client)
                )
            except (DownloadError, ReleaseError) as error:
                self.answers.append(f"{place}: {error}")
                continue
            yield from self._listed(files, place)

    def _pages(self) -> Iterator[tuple[str, str, bool]]:
        """Give places in words, their URLs, and whether each is an index of many projects."""
        for link in self.sources.find_links:
            if local_folder(link) is None:
                yield f"page {redacted(link)}", as_url(link), False
        if self.sources.no_index:
            self.answers.append("indexes: forbidden by the setting 'no-index'")
            return
        own = [] if self.manifest.index_url is None else [self.manifest.index_url]
        if not self.sources.indexes and not own:
            self.answers.append("indexes: none is configured here, and the release names none")
        for index in dict.fromkeys([*self.sources.indexes, *own]):
            yield f"index {redacted(index)}", as_url(index), True

    def _listed(self, files: list[IndexFile], place: str) -> Iterator[tuple[str, str]]:
        same = [file for file in files if file.filename == self.wheel.filename]
        if not same:
            self.answers.append(f"{place}: lists no {self.wheel.filename}")
        for file in same:
            if file.sha256 not in (None, self.wheel.sha256):
                self.answers.append(f"{place}: lists another file of this name")
            elif file.refusal:
                self.answers.append(f"{place}: {file.refusal}")
            else:
                yield place, file.url

    def _is_right(self, path: Path, place: str) -> bool:
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size == self.wheel.size:
                    digest = hashlib.sha256()
                    while chunk := file.read(_CHUNK):
                        digest.update(chunk)
                    if digest.hexdigest() == self.wheel.sha256:
                        return True
        except OSError as error:
            self.answers.append(f"{place}: {error.strerror}")
            return False
        self.answers.append(f"{place}: has another file of this name, {size} bytes")
        return False

    def _nowhere(self) -> DownloadError:
        wheel = self.wheel
        lines = [
            f"{wheel.filename} is needed and was found nowhere",
            *(f"  {answer}" for answer in dict.fromkeys(self.answers)),
            self._configuration(),
            *(f"  {path}: not read: {why}" for path, why in self.sources.unread.items()),
            f"the file has {wheel.size} bytes, sha256 {wheel.sha256}",
            "bring it from a machine that can reach the release's index into a folder DIR and set",
            "  VARIANTWHEEL_WHEEL_DIR=DIR",
            "a folder of find-links in the configuration of pip or uv serves too; options on the",
            "command line of pip or uv do not reach this place, nor do indexes that Poetry, PDM or",
            "a requirements file name: state an index as PIP_INDEX_URL, UV_INDEX or",
            "VARIANTWHEEL_INDEX_URL, or in a configuration file of pip or uv",
        ]
        return DownloadError("\n".join(lines))

    def _configuration(self) -> str:
        folder, read = self.sources.looked_from, ", ".join(self.sources.read) or "none"
        place = f"looked for from {folder!r}" if folder else "where the installer runs is not known"
        return f"  configuration: {place}; files read: {read}"


def local_folder(link: str) -> Path | None:
    """Return the folder that an entry of find-links names, or none if it is a page."""
    path = link
    if link.startswith("file:"):
        path = urllib.request.url2pathname(urllib.parse.urlsplit(link).path)
    elif "://" in link:
        return None
    return None if path.endswith((".html", ".htm")) else Path(path)


def as_url(link: str) -> str:
    """Return a path of this machine as a URL; URLs stay."""
    if "://" in link or link.startswith("file:"):
        return link
    return Path(link).absolute().as_uri()
