"""Finds the wheels of a release: on an index, in a folder, or inside a selector sdist."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from variantwheel_selector.errors import InvalidNameError, ReleaseError, VariantsJsonError
from variantwheel_selector.machine import Machine
from variantwheel_selector.manifest import MANIFEST_PATH, Manifest, parse_manifest
from variantwheel_selector.packaging_library import specifiers, version
from variantwheel_selector.selection import Release
from variantwheel_selector.simple_index import IndexFile, fetch_project, fetch_text
from variantwheel_selector.variants_json import parse_variants_json
from variantwheel_selector.wheel_name import WheelName, escape_project, normalize_project

_MANIFEST_LIMIT = 16 * 1024 * 1024


def release_from_index(index: str, project: str, wanted: str | None, machine: Machine) -> Release:
    """Return a release that an index serves.

    Args:
        index: The index's URL.
        project: The project.
        wanted: A version, or none for the newest.
        machine: Decides on `Requires-Python`.

    Raises:
        ReleaseError: There is no such release, or it has no variants.json.
    """
    url = urlsplit(index)
    if url.username or url.password:
        raise ReleaseError("user name and password in the index's URL are not supported")
    files = fetch_project(index, project)
    return _release(files, lambda file: fetch_text(file.url), project, wanted, machine, index)


def release_from_folder(
    folder: Path, project: str, wanted: str | None, machine: Machine
) -> Release:
    """Return a release whose wheels and variants.json lie in a folder (`--find-links`).

    Raises:
        ReleaseError: There is no such release, or it has no variants.json.
    """
    if not folder.is_dir():
        raise ReleaseError(f"{str(folder)!r} is no folder")
    files = [IndexFile(path.name, path.name) for path in sorted(folder.iterdir())]
    return _release(
        files,
        lambda file: (folder / file.filename).read_bytes(),
        project,
        wanted,
        machine,
        str(folder),
    )


def release_from_sdist(path: Path) -> Release:
    """Return the release that a selector sdist carries, packed or unpacked.

    Raises:
        ReleaseError: This is no selector sdist.
        ManifestError: Its manifest cannot be read.
    """
    return Release.from_manifest(read_sdist_manifest(path))


def read_sdist_manifest(path: Path) -> Manifest:
    """Read the manifest of a selector sdist, packed or unpacked; nothing is unpacked."""
    try:
        if path.is_dir():
            text = (path / MANIFEST_PATH).read_bytes()
        else:
            with tarfile.open(path) as archive:
                text = _manifest_member(archive)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise ReleaseError(f"{str(path)!r} is no selector sdist: {error}") from error
    return parse_manifest(text)


def _manifest_member(archive: tarfile.TarFile) -> bytes:
    for member in archive:
        if member.isfile() and member.name.partition("/")[2] == MANIFEST_PATH:
            content = archive.extractfile(member)
            if content is not None and member.size <= _MANIFEST_LIMIT:
                return content.read()
    raise tarfile.TarError(f"it holds no {MANIFEST_PATH}")


def _release(
    files: Iterable[IndexFile],
    read: Callable[[IndexFile], bytes],
    project: str,
    wanted: str | None,
    machine: Machine,
    place: str,
) -> Release:
    wheels = _wheels(files, project)
    chosen = _choose_version({name.version for name, _ in wheels}, project, wanted, place)
    of_version = [(name, file) for name, file in wheels if name.version == chosen]
    json_name = f"{escape_project(project)}-{chosen}-variants.json"
    json_file = next((file for file in files if file.filename == json_name), None)
    if json_file is None:
        raise ReleaseError(f"{place} has no {json_name}; name the release's sdist instead")
    try:
        info = parse_variants_json(read(json_file), json_name)
    except VariantsJsonError as error:
        raise ReleaseError(f"{place}: {error}") from error
    refused = {
        file.filename: f"needs Python {file.requires_python}, this is {machine.python.version}"
        for _, file in of_version
        if not _python_allowed(file.requires_python, machine.python.version)
    }
    hashes = {file.filename: file.sha256 for _, file in of_version}
    return Release(normalize_project(project), chosen, info, hashes, refused)


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


def _choose_version(found: set[str], project: str, wanted: str | None, place: str) -> str:
    parsed = {key: text for text in found if (key := _parse_version(text)) is not None}
    if wanted is not None:
        key = _parse_version(wanted)
        if key is None:
            raise ReleaseError(f"{wanted!r} is no version")
        if key not in parsed:
            known = ", ".join(map(str, sorted(parsed))) or "none"
            raise ReleaseError(f"{place} has no wheels of {project} {wanted}, but of {known}")
        return parsed[key]
    final = [key for key in parsed if not key.is_prerelease] or list(parsed)
    if not final:
        raise ReleaseError(f"{place} has no wheels of {project}")
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
