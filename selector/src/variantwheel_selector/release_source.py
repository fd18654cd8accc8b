"""Finds the wheels of a release: on an index, in a folder, or inside a selector sdist."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from variantwheel_selector.errors import (
    DownloadError,
    InvalidNameError,
    ReleaseError,
    VariantsJsonError,
)
from variantwheel_selector.fetching.payload_search import as_url, make_client
from variantwheel_selector.fetching.sources import configured_sources
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.fetching.web import WebClient
from variantwheel_selector.machine import Machine
from variantwheel_selector.manifest import MANIFEST_PATH, parse_manifest
from variantwheel_selector.missing_project import folder_advice, index_advice
from variantwheel_selector.packaging_library import specifiers, version
from variantwheel_selector.record import record
from variantwheel_selector.selection import Release
from variantwheel_selector.simple_index import IndexFile, fetch_file, fetch_project
from variantwheel_selector.variants_json import parse_variants_json
from variantwheel_selector.wheel_name import WheelName, escape_project, normalize_project

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
    """
    client = make_client(configured_sources(environment), environment)
    files = fetch_release_files(index, project, client)
    try:
        found = _Found(files, lambda file: _download(file, client), redacted(index), project)
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


def release_from_folder(
    folder: Path, project: str, wanted: str | None, machine: Machine
) -> Release:
    """Return a release whose files lie in a folder (`--find-links`).

    Raises:
        ReleaseError: There is no such release.
    """
    if not folder.is_dir():
        raise ReleaseError(f"{str(folder)!r} is no folder")
    try:
        files = [IndexFile(path.name, path.name) for path in sorted(folder.iterdir())]
        found = _Found(files, lambda file: (folder / file.url).read_bytes(), str(folder), project)
        return found.release(wanted, machine)
    except OSError as error:
        raise ReleaseError(f"cannot read {error.filename!r}: {error.strerror}") from error


def release_from_sdist(path: Path) -> Release:
    """Return the release that a selector sdist carries, packed or unpacked.

    Raises:
        ReleaseError: This is no selector sdist.
        ManifestError: Its manifest cannot be read.
    """
    try:
        if path.is_dir():
            return Release.from_manifest(parse_manifest((path / MANIFEST_PATH).read_bytes()))
        with path.open("rb") as file:
            return _packed_release(file, str(path))
    except OSError as error:
        raise ReleaseError(f"{str(path)!r} is no selector sdist: {error}") from error


def _packed_release(file: BinaryIO, place: str) -> Release:
    """Read the manifest in a packed sdist; nothing is unpacked."""
    try:
        with tarfile.open(fileobj=file, mode="r:gz") as archive:
            for member in archive:
                if member.isfile() and member.name.partition("/")[2] == MANIFEST_PATH:
                    content = archive.extractfile(member)
                    if content is not None and member.size <= _MANIFEST_LIMIT:
                        return Release.from_manifest(parse_manifest(content.read()))
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ReleaseError(f"{place!r} is no selector sdist: {error}") from error
    raise ReleaseError(f"{place!r} is no selector sdist: it holds no {MANIFEST_PATH}")


def _download(file: IndexFile, client: WebClient) -> bytes:
    content = fetch_file(file.url, client)
    if file.sha256 is not None and hashlib.sha256(content).hexdigest() != file.sha256:
        raise ReleaseError(
            f"{redacted(file.url)} is not what the index promises: its sha256 differs"
        )
    return content


@record
class _Found:
    """The files of a project at one place.

    Attributes:
        files: All of them.
        read: Gives the content of one.
        place: For messages.
        project: The project.
    """

    files: Sequence[IndexFile]
    read: Callable[[IndexFile], bytes]
    place: str
    project: str

    def release(self, wanted: str | None, machine: Machine) -> Release:
        """Return the release of one version, or of the newest.

        The variant wheels and their variants.json count; an index that takes neither, as public
        ones do today, has the selector sdist alone, which carries both.
        """
        wheels, sdists = _wheels(self.files, self.project), project_sdists(self.files, self.project)
        versions = {name.version for name, _ in wheels} | set(sdists)
        advice = "" if versions else folder_advice([f.filename for f in self.files], self.project)
        chosen = choose_version(versions, self.project, wanted, self.place, advice)
        json_name = f"{escape_project(self.project)}-{chosen}-variants.json"
        json_file = next((file for file in self.files if file.filename == json_name), None)
        if json_file is None and chosen in sdists:
            sdist = sdists[chosen]
            return _packed_release(io.BytesIO(self.read(sdist)), sdist.filename)
        if json_file is None:
            raise ReleaseError(f"{self.place} has neither {json_name} nor the release's sdist")
        try:
            info = parse_variants_json(self.read(json_file), json_name)
        except VariantsJsonError as error:
            raise ReleaseError(f"{self.place}: {error}") from error
        of_version = [file for name, file in wheels if name.version == chosen]
        refused = {
            file.filename: f"needs Python {file.requires_python}, this is {machine.python.version}"
            for file in of_version
            if not _python_allowed(file.requires_python, machine.python.version)
        }
        hashes = {file.filename: file.sha256 for file in of_version}
        return Release(normalize_project(self.project), chosen, info, hashes, refused)


def project_sdists(files: Iterable[IndexFile], project: str) -> dict[str, IndexFile]:
    """Return a project's source distributions by version."""
    found: dict[str, IndexFile] = {}
    for file in files:
        stem, dot, _ = file.filename.rpartition(".tar.gz")
        name, dash, text = stem.rpartition("-")
        same = bool(dot and dash) and normalize_project(name) == normalize_project(project)
        if same and not file.yanked:
            found[text] = file
    return found


def _wheels(files: Iterable[IndexFile], project: str) -> list[tuple[WheelName, IndexFile]]:
    found: list[tuple[WheelName, IndexFile]] = []
    for file in files:
        if file.yanked or not file.filename.endswith(".whl"):
            continue
        try:
            name = WheelName.from_str(file.filename)
        except InvalidNameError:
            continue  # as installers do: an index may hold what a later standard allows
        if normalize_project(name.distribution) == normalize_project(project):
            found.append((name, file))
    return found


def choose_version(
    found: set[str], project: str, wanted: str | None, place: str, advice: str = ""
) -> str:
    """Return the version asked for as it is spelt here, or the newest.

    Args:
        found: The versions that there are.
        project: For messages.
        wanted: A version, or none for the newest.
        place: For messages.
        advice: What to add where there is none.

    Raises:
        ReleaseError: There is none.
    """
    # Sorted: of two spellings of one version, it is always the same that is taken.
    parsed = {key: text for text in sorted(found) if (key := _parse_version(text)) is not None}
    if wanted is not None:
        key = _parse_version(wanted)
        if key is None:
            raise ReleaseError(f"{wanted!r} is no version")
        if not parsed:
            raise ReleaseError(f"{place} has nothing of {project}{advice}")
        if key not in parsed:
            known = ", ".join(map(str, sorted(parsed)))
            raise ReleaseError(f"{place} has no {project} {wanted}, but {known}")
        return parsed[key]
    final = [key for key in parsed if not key.is_prerelease] or list(parsed)
    if not final:
        raise ReleaseError(f"{place} has nothing of {project}{advice}")
    return parsed[max(final)]


def _parse_version(text: str) -> version.Version | None:
    try:
        return version.Version(text)
    except version.InvalidVersion:
        return None


def _python_allowed(requires_python: str, python: str) -> bool:
    if not requires_python:
        return True
    try:
        return specifiers.SpecifierSet(requires_python).contains(python, prereleases=True)
    except specifiers.InvalidSpecifier:
        return True  # as pip does: what cannot be read does not forbid
