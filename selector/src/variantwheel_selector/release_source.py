"""Finds the wheels of a release: on an index, in a folder, or inside a selector sdist."""

from __future__ import annotations

import functools
import io
import tarfile
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from variantwheel_selector.bounded_read import open_regular
from variantwheel_selector.errors import (
    DownloadError,
    ReleaseError,
    UsageError,
    VariantsJsonError,
)
from variantwheel_selector.fetching.payload_search import as_url, make_client
from variantwheel_selector.fetching.sources import configured_sources
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.fetching.web import WebClient
from variantwheel_selector.installer_folder import own_folder
from variantwheel_selector.machine import Machine
from variantwheel_selector.manifest import MANIFEST_PATH, parse_manifest
from variantwheel_selector.missing_project import index_advice
from variantwheel_selector.record import record, replace
from variantwheel_selector.release_files import (
    choose_version,
    not_yanked,
    nothing_advice,
    project_sdists,
    project_versions,
    project_wheels,
    yank_reason,
)
from variantwheel_selector.requires_python import (
    PythonFilter,
    python_refusal,
    requirement_in,
    stated_requirement,
)
from variantwheel_selector.sdist_tar import open_sdist
from variantwheel_selector.selection import Release
from variantwheel_selector.simple_index import IndexFile, fetch_listed_file, fetch_project
from variantwheel_selector.variants_json import parse_variants_json
from variantwheel_selector.wheel_name import escape_project, normalize_project

_MANIFEST_LIMIT = 16 * 1024 * 1024


def release_from_index(
    index: str,
    project: str,
    wanted: str | None,
    machine: Machine,
    environment: Mapping[str, str],
) -> Release:
    """Return a release that an index serves.

    Args:
        index: The index's URL.
        project: The project.
        wanted: A version, or none for the newest.
        machine: Decides on `Requires-Python`.
        environment: With the settings of proxies, certificates and logins.

    Raises:
        ReleaseError: There is no such release.
        NothingFitsError: No version is for the machine's Python.
    """
    client = make_client(configured_sources(environment, own_folder()), environment)
    files = fetch_release_files(index, project, client)
    try:
        read = _Kept(lambda file: fetch_listed_file(file, client))
        found = _Found(files, read, lambda file: file.requires_python, redacted(index), project)
        return found.release(wanted, machine)
    except DownloadError as error:
        raise ReleaseError(str(error)) from error


def fetch_release_files(index: str, project: str, client: WebClient) -> list[IndexFile]:
    """Return the files that an index lists for a project.

    Raises:
        ReleaseError: There are none, with projects of the index that may have been meant.
    """
    url = as_url(index)
    try:
        return fetch_project(url, project, client)
    except (DownloadError, ReleaseError) as error:
        advice = index_advice(url, project, str(error), client)
        raise ReleaseError(f"{error}{advice}") from error


def folder_of_links(link: str) -> Path:
    """Return the folder that an option `--find-links` names, by a path or a `file:` URL.

    Raises:
        UsageError: It names a page, or is neither.
    """
    if link.startswith("file:"):
        try:
            return Path(urllib.request.url2pathname(urllib.parse.urlsplit(link).path))
        except ValueError as error:
            raise UsageError(f"--find-links {link!r} is no URL: {error}") from error
    if "://" in link:
        raise UsageError(
            f"--find-links takes a folder here, not the page {redacted(link)!r}; --index takes the"
            " URL of an index"
        )
    return Path(link)


def release_from_folder(
    folder: Path, project: str, wanted: str | None, machine: Machine
) -> Release:
    """Return a release whose files lie in a folder (`--find-links`).

    Raises:
        ReleaseError: There is no such release.
        NothingFitsError: No version is for the machine's Python.
    """
    if not folder.is_dir():
        raise ReleaseError(f"{str(folder)!r} is no folder")
    try:
        files = files_of_folder(folder)
        read = _Kept(lambda file: _content(folder / file.url))
        stated = functools.partial(stated_in_folder, folder)
        found = _Found(files, read, stated, str(folder), project)
        return found.release(wanted, machine)
    except OSError as error:
        raise ReleaseError(f"cannot read {error.filename!r}: {error.strerror}") from error


def files_of_folder(folder: Path) -> list[IndexFile]:
    """Return what lies in a folder as if an index listed it."""
    return [IndexFile(path.name, path.name) for path in sorted(folder.iterdir())]


def _content(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def stated_in_folder(folder: Path, file: IndexFile) -> str:
    """Return `Requires-Python` of a wheel or sdist in a folder; empty if it states nothing."""
    try:
        with open_regular(folder / file.url) as opened:
            return stated_requirement(opened, file.filename)
    except OSError:
        return ""  # who reads more of it says why it cannot be read


def release_from_sdist(path: Path, machine: Machine) -> Release:
    """Return the release that a selector sdist carries, packed or unpacked.

    Args:
        path: The sdist.
        machine: Decides on `Requires-Python`.

    Raises:
        ReleaseError: This is no selector sdist.
        ManifestError: Its manifest cannot be read.
    """
    try:
        if path.is_dir():
            release = Release.from_manifest(parse_manifest((path / MANIFEST_PATH).read_bytes()))
            requires_python = requirement_in((path / "PKG-INFO").read_bytes())
            return _for_python(release, requires_python, machine)
        with open_regular(path) as file:
            return _packed_release(file, str(path), machine)
    except OSError as error:
        raise ReleaseError(f"{str(path)!r} is no selector sdist: {error}") from error


def _for_python(release: Release, requires_python: str, machine: Machine) -> Release:
    """Return the release of an sdist without wheels if the sdist is not for a machine's Python."""
    refusal = python_refusal(requires_python, machine.python.version)
    return replace(release, refused=dict.fromkeys(release.hashes, refusal)) if refusal else release


def _packed_release(file: BinaryIO, place: str, machine: Machine) -> Release:
    """Read the manifest in a packed sdist; nothing is unpacked."""
    try:
        with open_sdist(file) as archive:
            for member in archive:
                if member.isfile() and member.name.partition("/")[2] == MANIFEST_PATH:
                    content = archive.extractfile(member)
                    if content is not None and member.size <= _MANIFEST_LIMIT:
                        release = Release.from_manifest(parse_manifest(content.read()))
                        file.seek(0)
                        return _for_python(release, stated_requirement(file, place), machine)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ReleaseError(f"{place!r} is no selector sdist: {error}") from error
    raise ReleaseError(f"{place!r} is no selector sdist: it holds no {MANIFEST_PATH}")


class _Kept:
    """Reads each file once."""

    def __init__(self, read: Callable[[IndexFile], bytes]) -> None:
        self._read = read
        self._contents: dict[str, bytes] = {}

    def __call__(self, file: IndexFile) -> bytes:
        if file.filename not in self._contents:
            self._contents[file.filename] = self._read(file)
        return self._contents[file.filename]


@record
class _Found:
    """The files of a project at one place.

    Attributes:
        files: All of them.
        read: Gives the content of one.
        stated: Gives `Requires-Python` of one, the empty string if the place does not know it.
        place: For messages.
        project: The project.
    """

    files: Sequence[IndexFile]
    read: Callable[[IndexFile], bytes]
    stated: Callable[[IndexFile], str]
    place: str
    project: str

    def release(self, wanted: str | None, machine: Machine) -> Release:
        """Return the release of one version, or of the newest that is for the machine's Python.

        The variant wheels and their variants.json count; an index that takes neither, as public
        ones do today, has the selector sdist alone, which carries both.
        """

        def versions_of(some: Collection[IndexFile]) -> set[str]:
            return project_versions(some, self.project)

        files = not_yanked(self.files, wanted, versions_of)
        wheels, sdists = project_wheels(files, self.project), project_sdists(files, self.project)
        versions = versions_of(files)
        advice = "" if versions else nothing_advice(self.files, self.project, versions_of)
        python = PythonFilter(
            (machine.python.version,),
            lambda text: [
                *(self.stated(file) for name, file in wheels if name.version == text),
                *([self._stated_by_sdist(sdists[text], text)] if text in sdists else ()),
            ],
        )
        chosen = choose_version(versions, self.project, wanted, self.place, advice, python)
        of_version = [file for name, file in wheels if name.version == chosen]
        yanked = yank_reason([*of_version, *filter(None, [sdists.get(chosen)])])
        json_file = self._json_file(chosen)
        if json_file is None and chosen in sdists:
            sdist = sdists[chosen]
            content = io.BytesIO(self.read(sdist))
            release = _packed_release(content, sdist.filename, machine)
            release = replace(release, yanked=yanked)
            return _for_python(release, self._stated_by_sdist(sdist, chosen), machine)
        if json_file is None:
            raise ReleaseError(
                f"{self.place} has neither {self._json_name(chosen)} nor the release's sdist"
            )
        try:
            info = parse_variants_json(self.read(json_file), json_file.filename)
        except VariantsJsonError as error:
            raise ReleaseError(f"{self.place}: {error}") from error
        refused = {
            file.filename: refusal
            for file in of_version
            if (refusal := python_refusal(self.stated(file), machine.python.version))
        }
        hashes = {file.filename: file.sha256 for file in of_version}
        return Release(normalize_project(self.project), chosen, info, hashes, refused, yanked)

    def _json_name(self, version: str) -> str:
        return f"{escape_project(self.project)}-{version}-variants.json"

    def _json_file(self, version: str) -> IndexFile | None:
        name = self._json_name(version)
        return next((file for file in self.files if file.filename == name), None)

    def _stated_by_sdist(self, sdist: IndexFile, version: str) -> str:
        """Return what an sdist states, read from itself if the place does not know it.

        Only where nothing but the sdist is read anyway: it may be large.
        """
        stated = self.stated(sdist)
        if stated or self._json_file(version) is not None:
            return stated
        return stated_requirement(io.BytesIO(self.read(sdist)), sdist.filename)
