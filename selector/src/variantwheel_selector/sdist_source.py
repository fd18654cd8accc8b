"""Finds a project's selector sdist, and opens the wheels that it embeds or names by hash."""

from __future__ import annotations

import functools
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from variantwheel_selector.bounded_read import open_regular
from variantwheel_selector.errors import DownloadError, ReleaseError
from variantwheel_selector.fetching.payload_search import found_payload, make_client
from variantwheel_selector.fetching.sources import (
    PackageSources,
    configured_sources,
    stated_sources,
)
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.installer_folder import own_folder
from variantwheel_selector.manifest import MANIFEST_PATH, Manifest, PayloadWheel, parse_manifest
from variantwheel_selector.record import record, replace
from variantwheel_selector.release_files import (
    choose_version,
    not_yanked,
    nothing_advice,
    project_sdists,
)
from variantwheel_selector.release_source import (
    fetch_release_files,
    files_of_folder,
    stated_in_folder,
)
from variantwheel_selector.requires_python import (
    PythonFilter,
    requirement_in,
    stated_requirement,
)
from variantwheel_selector.sdist_tar import open_sdist
from variantwheel_selector.settings import Settings
from variantwheel_selector.simple_index import IndexFile, fetch_listed_file
from variantwheel_selector.system_refusal import is_refusal

_MANIFEST_LIMIT = 16 * 1024 * 1024
_TAR_ERRORS = (tarfile.TarError, OSError, EOFError, zlib.error)


@record
class SelectorSdist:
    """A selector sdist at hand.

    Attributes:
        path: The archive, or the folder that it was unpacked into.
        manifest: Its manifest.
        index: The index that it came from, if any.
        folder: The folder of a release that it came from, if any.
        requires_python: What its metadata states, such as `>=3.10`; empty if it states nothing.
        yanked: Why its publisher took it back, empty without a reason; none if it was not.
        unhashed: Whether it came from an index that states no hash of it.
    """

    path: Path
    manifest: Manifest
    index: str | None = None
    folder: Path | None = None
    requires_python: str = ""
    yanked: str | None = None
    unhashed: bool = False


def sdist_from_index(
    index: str,
    project: str,
    wanted: str | None,
    folder: Path,
    environment: Mapping[str, str],
    pythons: Sequence[str],
) -> SelectorSdist:
    """Download the selector sdist of a version, or of the newest, into a folder.

    Args:
        index: The index's URL.
        project: The project.
        wanted: A version, or none for the newest that is for all Pythons.
        folder: Takes the archives.
        environment: With the settings of proxies, certificates and logins.
        pythons: Such as `3.11.7`.

    Raises:
        ReleaseError: The index has none.
        NothingFitsError: It has none for these Pythons.
    """
    client = make_client(configured_sources(environment, own_folder()), environment)
    files = fetch_release_files(index, project, client)
    downloaded: dict[str, Path] = {}

    def path_of(file: IndexFile) -> Path:
        if file.filename not in downloaded:
            content = fetch_listed_file(file, client)
            # Not under its own name, which may hold anything.
            path = folder / f"selector-sdist-{len(downloaded)}.tar.gz"
            path.write_bytes(content)
            downloaded[file.filename] = path
        return downloaded[file.filename]

    def stated(file: IndexFile) -> str:
        if file.requires_python:
            return file.requires_python
        with path_of(file).open("rb") as opened:
            return stated_requirement(opened, file.filename)

    try:
        file = _chosen(files, project, wanted, redacted(index), pythons, stated)
        path = path_of(file)
    except DownloadError as error:
        raise ReleaseError(str(error)) from error
    sdist = sdist_from_file(path, f"{file.filename} of {redacted(index)}")
    return replace(
        sdist,
        index=index,
        requires_python=stated(file),
        yanked=file.yanked,
        unhashed=not file.hashes,
    )


def sdist_from_folder(
    folder: Path, project: str, wanted: str | None, pythons: Sequence[str]
) -> SelectorSdist:
    """Find the selector sdist of a version, or of the newest, in a folder.

    Args:
        folder: Holds it.
        project: The project.
        wanted: A version, or none for the newest that is for all Pythons.
        pythons: Such as `3.11.7`.

    Raises:
        ReleaseError: There is none.
        NothingFitsError: There is none for these Pythons.
    """
    if not folder.is_dir():
        raise ReleaseError(f"{str(folder)!r} is no folder")
    stated = functools.partial(stated_in_folder, folder)
    file = _chosen(files_of_folder(folder), project, wanted, str(folder), pythons, stated)
    return replace(sdist_from_file(folder / file.filename), folder=folder)


def sdist_from_file(path: Path, place: str | None = None) -> SelectorSdist:
    """Open a selector sdist, packed or unpacked.

    Args:
        path: The archive or folder.
        place: For messages, if the path means nothing to the user.

    Raises:
        ReleaseError: This is none.
        ManifestError: Its manifest cannot be read.
    """
    place = repr(str(path)) if place is None else place
    try:
        if path.is_dir():
            content = (path / MANIFEST_PATH).read_bytes()
            stated = requirement_in((path / "PKG-INFO").read_bytes())
            return SelectorSdist(path, parse_manifest(content), requires_python=stated)
        with tempfile.TemporaryDirectory(prefix="variantwheel-") as folder:
            _unpack(path, {MANIFEST_PATH: _MANIFEST_LIMIT}, Path(folder), place)
            manifest = parse_manifest(Path(folder, MANIFEST_PATH).read_bytes())
        with open_regular(path) as file:
            return SelectorSdist(
                path, manifest, requires_python=stated_requirement(file, path.name)
            )
    except OSError as error:
        if is_refusal(error):
            raise
        raise ReleaseError(f"{place} is no selector sdist: {error}") from error


@contextmanager
def unpacked(sdist: SelectorSdist, wheels: Iterable[PayloadWheel]) -> Iterator[SelectorSdist]:
    """Give the sdist as a folder in which embedded wheels are, whole or in pieces.

    Args:
        sdist: Packed or not.
        wheels: Those that are needed.

    Raises:
        ReleaseError: The archive lacks one.
    """
    if sdist.path.is_dir() or not sdist.manifest.embedded:
        yield sdist
        return
    whole = sum(wheel.size for wheel in sdist.manifest.wheels)
    limits = {wheel.path: whole if wheel.ranges else wheel.size for wheel in wheels}
    with tempfile.TemporaryDirectory(prefix="variantwheel-") as name:
        _unpack(sdist.path, limits, Path(name), repr(str(sdist.path)))
        yield replace(sdist, path=Path(name))


@contextmanager
def payload_wheel(
    sdist: SelectorSdist, wheel: PayloadWheel, settings: Settings, environment: Mapping[str, str]
) -> Iterator[Path]:
    """Give the path of a wheel that an unpacked sdist embeds, or that its manifest names.

    An embedded one may be there in pieces; `payload.open_payload` puts it together.

    Raises:
        DownloadError: It is nowhere.
    """
    if sdist.manifest.embedded:
        yield sdist.path / wheel.path
        return
    sources = _sources(sdist, stated_sources(settings, environment, own_folder()))
    with found_payload(sdist.manifest, wheel, sources, environment) as path:
        yield path


def _sources(sdist: SelectorSdist, sources: PackageSources) -> PackageSources:
    """Return the user's sources, after the place that the sdist came from."""
    if sdist.index is not None:
        indexes = dict.fromkeys([sdist.index, *sources.indexes])
        sources = replace(sources, indexes=tuple(indexes), no_index=False)
    if sdist.folder is not None:
        links = (str(sdist.folder.absolute()), *sources.find_links)
        sources = replace(sources, find_links=links)
    return sources


def _chosen(
    files: list[IndexFile],
    project: str,
    wanted: str | None,
    place: str,
    pythons: Sequence[str],
    stated: Callable[[IndexFile], str],
) -> IndexFile:

    def sdists_of(some: Collection[IndexFile]) -> dict[str, IndexFile]:
        return project_sdists(some, project)

    sdists = sdists_of(not_yanked(files, wanted, sdists_of))
    advice = "" if sdists else nothing_advice(files, project, sdists_of)
    python = PythonFilter(tuple(pythons), lambda text: [stated(sdists[text])])
    return sdists[choose_version(set(sdists), project, wanted, place, advice, python)]


def _unpack(archive_path: Path, limits: Mapping[str, int], folder: Path, place: str) -> None:
    """Unpack some files of an sdist, and nothing else.

    Args:
        archive_path: The sdist.
        limits: The bytes that each may have, by its path below the sdist's own folder.
        folder: Where they go, with their paths.
        place: The sdist, for messages.
    """
    missing = dict(limits)
    try:
        with open_regular(archive_path) as opened, open_sdist(opened) as archive:
            for member in archive:
                inside = member.name.partition("/")[2]
                if not member.isfile() or inside not in missing:
                    continue
                content = archive.extractfile(member)
                if content is not None and member.size <= missing.pop(inside):
                    target = folder / inside
                    target.parent.mkdir(exist_ok=True)
                    with target.open("wb") as file:
                        shutil.copyfileobj(content, file)
                if not missing:
                    break
    except _TAR_ERRORS as error:
        if is_refusal(error):
            raise
        raise ReleaseError(f"{place} is no selector sdist: {error}") from error
    for inside in limits:
        if not (folder / inside).is_file():
            raise ReleaseError(f"{place} is no selector sdist: it holds no {inside}")
