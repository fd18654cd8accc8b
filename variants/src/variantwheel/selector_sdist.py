"""The selector sdist: the release's wheels, the selector that chooses, and the project's sources.

Its layout is described in docs/architecture.md and read by `variantwheel_selector`.
"""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from variantwheel.core_metadata import (
    parse_core_metadata,
    static_metadata_problems,
    version_advice,
)
from variantwheel.errors import ReleaseFolderError, SdistFormatError
from variantwheel.folder_lock import locked_folder
from variantwheel.prepared_answers import render_prepared
from variantwheel.project import Project
from variantwheel.release_folder import read_variant_json
from variantwheel.sdist_archive import SdistArchive
from variantwheel.shared_pieces import share_pieces
from variantwheel.toml_table import TomlTable, read_toml
from variantwheel.wheel_archive import read_wheel, wheel_name_of
from variantwheel_selector.checked_wheel import PREPARED_PATH
from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.manifest import (
    MANIFEST_PATH,
    SHARED_FILE,
    Manifest,
    PayloadWheel,
    SourceProject,
    render_manifest,
)
from variantwheel_selector.package_copy import copy_package
from variantwheel_selector.record import replace
from variantwheel_selector.sdist import pack_sdist
from variantwheel_selector.source_archive import SOURCE_ARCHIVE, SourceFile, pack_sources
from variantwheel_selector.variants_json import VariantsInfo
from variantwheel_selector.variants_merge import merge_variants_info
from variantwheel_selector.wheel_name import escape_project, normalize_project

SIZE_BUDGET = 100 * 1024 * 1024
"""Bytes above which public indexes refuse a file unless asked first."""

_WORK_PREFIX = ".selector-sdist-"
_PYPROJECT = """\
# Written by variantwheel. The backend in this archive chooses the wheel that fits the machine; the
# project's own pyproject.toml stands in `source.zip.gz`.
[build-system]
requires = []
build-backend = "variantwheel_selector.backend"
backend-path = ["_selector"]
"""


@dataclass(frozen=True)
class Payload:
    """The variant wheels of one release, known to go together.

    Attributes:
        name: The project's name as its metadata spells it.
        version: The release's version.
        wheels: Sorted by name.
        metadata: METADATA, the same in all wheels.
        info: What the wheels need.
    """

    name: str
    version: str
    wheels: tuple[Path, ...]
    metadata: bytes
    info: VariantsInfo


@dataclass(frozen=True)
class ProjectSources:
    """What a source build starts from.

    Attributes:
        archive: The project's own sdist.
        wheel_requirements: What its backend asks for besides the requirements in pyproject.toml.
    """

    archive: SdistArchive
    wheel_requirements: tuple[str, ...] = ()


def collect_payload(folder: Path, project: Project) -> Payload:
    """Find the variant wheels in a release folder and see whether they are one release.

    Raises:
        ReleaseFolderError: There is none, or they differ in what has to be equal.
    """
    if not folder.is_dir():
        raise ReleaseFolderError(f"{folder}: no such folder")
    wheels = sorted(folder.glob("*.whl"))
    labelled = tuple(wheel for wheel in wheels if wheel_name_of(wheel).label is not None)
    if not labelled:
        raise ReleaseFolderError(
            f"{folder}: holds no variant wheel; make them with `variantwheel build --all`"
        )
    releases = {
        (escape_project(name.distribution), name.version) for name in map(wheel_name_of, labelled)
    }
    if len(releases) > 1:
        words = ", ".join(f"{name} {version}" for name, version in sorted(releases))
        raise ReleaseFolderError(f"{folder}: holds wheels of several releases: {words}")
    distribution = releases.pop()[0]
    for wheel in wheels:
        name = wheel_name_of(wheel)
        if name.label is None and escape_project(name.distribution) == distribution:
            raise ReleaseFolderError(
                f"{wheel}: a plain wheel of the project; installers would prefer it to the "
                "selector sdist, so that nobody got a variant; remove it"
            )
    metadata = _same_metadata(labelled)
    fields = parse_core_metadata(metadata)
    version = wheel_name_of(labelled[0]).version
    if fields.version != version:
        raise ReleaseFolderError(
            f"{labelled[0].name}: its METADATA is of version {fields.version}, its name of "
            f"{version}{version_advice(fields, version)}"
        )
    if said := project.contradiction(fields.name, fields.version):
        raise ReleaseFolderError(
            f"{folder}: the wheels are {fields.name} {fields.version}, and {said}; build the "
            "wheels anew, go back to their sources' state, or name their project's folder with "
            "--project DIR"
        )
    return Payload(
        name=fields.name,
        version=fields.version,
        wheels=labelled,
        metadata=metadata,
        info=_agreeing_info(labelled, project),
    )


def write_selector_sdist(
    payload: Payload,
    sources: ProjectSources | None,
    project: Project,
    folder: Path,
    epoch: int,
    *,
    embedded: bool = True,
    index_url: str | None = None,
) -> Path:
    """Write the sdist; the same wheels, sources and time always give the same bytes.

    Args:
        payload: The wheels.
        sources: The project's own sources, or none to leave out source builds.
        project: Says which of the sources a build does not need.
        folder: Where the file goes.
        epoch: Time stamp of all files, in seconds since 1970.
        embedded: Whether the wheels go into the sdist; otherwise their names, sizes and hashes
            alone do, and an installation fetches the one that it chose.
        index_url: An index that has the wheels, asked after those that the user configured.

    Returns:
        The file.
    """
    shared = share_pieces(payload.wheels if embedded else ())
    ranges = shared.ranges or ((),) * len(payload.wheels)
    manifest = Manifest(
        name=payload.name,
        version=payload.version,
        selector_version=importlib.metadata.version("variantwheel-selector"),
        variants=payload.info,
        wheels=tuple(map(_payload_wheel, payload.wheels, ranges)),
        source=None if sources is None else _source_project(sources, payload),
        embedded=embedded,
        index_url=index_url,
    )
    with _work_folder(folder) as work:
        root = work / "root"
        root.mkdir()
        (root / "PKG-INFO").write_bytes(payload.metadata)
        (root / "pyproject.toml").write_text(_PYPROJECT, encoding="utf-8")
        copy_package(root / "_selector")
        manifest_file = root / MANIFEST_PATH
        manifest_file.parent.mkdir()
        manifest_file.write_bytes(render_manifest(manifest).encode("utf-8"))
        if embedded:
            with manifest_file.with_name(SHARED_FILE).open("wb") as file:
                shared.write(file)
            (root / PREPARED_PATH).write_text(render_prepared(manifest, root), encoding="utf-8")
        if sources is not None:
            needed = _needed_sources(sources.archive, project).files
            packed = (SourceFile(path, item.data, item.executable) for path, item in needed.items())
            (root / SOURCE_ARCHIVE).write_bytes(pack_sources(packed))
        # The archive takes its time from this file, now and when an installer packs it again.
        os.utime(root / "PKG-INFO", (epoch, epoch))
        packed_name = pack_sdist(root, manifest, work)
        return (work / packed_name).replace(folder / packed_name)


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """Make a folder inside of another one, and remove what killed processes left there of theirs.

    Args:
        folder: Where the sdist will lie, on the same file system; made if it is missing.
    """
    with locked_folder(folder, f"{_WORK_PREFIX}lock", lambda: None, stays=False):
        for left in folder.glob(f"{_WORK_PREFIX}*/"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_WORK_PREFIX, dir=folder) as name:
            yield Path(name)


def _same_metadata(wheels: tuple[Path, ...]) -> bytes:
    first = wheels[0]
    metadata = read_wheel(first).dist_info_file("METADATA")
    problems = static_metadata_problems(parse_core_metadata(metadata))
    if problems:
        raise ReleaseFolderError(
            f"{first.name}: METADATA is not static: {'; '.join(problems)}; locks made on one "
            "machine would not hold on others; let the build backend write static metadata"
        )
    for wheel in wheels[1:]:
        if read_wheel(wheel).dist_info_file("METADATA") != metadata:
            raise ReleaseFolderError(
                f"{wheel.name}: its METADATA differs from that of {first.name}; the variants of a "
                "release must declare the same dependencies; build all of them from one state"
            )
    return metadata


def _agreeing_info(wheels: tuple[Path, ...], project: Project) -> VariantsInfo:
    parts: list[VariantsInfo] = []
    for wheel in wheels:
        label = str(wheel_name_of(wheel).label)
        info = read_variant_json(wheel)
        if dict(info.variants) != {label: project.definition(label).variant}:
            raise ReleaseFolderError(
                f"{wheel.name}: variant.json does not say what the definition of {label!r} says; "
                "build it anew"
            )
        parts.append(info)
    try:
        return merge_variants_info(parts)
    except VariantsJsonError as error:
        raise ReleaseFolderError(f"{wheels[0].parent}: the wheels disagree: {error}") from error


def _payload_wheel(wheel: Path, ranges: tuple[tuple[int, int], ...]) -> PayloadWheel:
    data = wheel.read_bytes()
    return PayloadWheel(
        filename=wheel.name,
        label=str(wheel_name_of(wheel).label),
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        ranges=ranges,
    )


def _source_project(sources: ProjectSources, payload: Payload) -> SourceProject:
    files = sources.archive.files
    info = files.get("PKG-INFO")
    if info is None or "pyproject.toml" not in files:
        raise SdistFormatError(
            f"{sources.archive.root}: the project's sdist lacks its pyproject.toml"
        )
    fields = parse_core_metadata(info.data)
    found = (normalize_project(fields.name), fields.version)
    if found != (normalize_project(payload.name), payload.version):
        raise ReleaseFolderError(
            f"the wheels are {payload.name} {payload.version}, the sources {fields.name} "
            f"{fields.version}; build the wheels anew, or go back to the sources' state"
        )
    declared = _read_build_system(sources.archive)
    # A front end asks the selector alone what to install, and before anything is installed.
    requires = dict.fromkeys([*declared.requires, *sources.wheel_requirements])
    return replace(declared, requires=tuple(requires))


def _read_build_system(sources: SdistArchive) -> SourceProject:
    with tempfile.TemporaryDirectory(prefix="variantwheel-pyproject-") as folder:
        file = Path(folder) / "pyproject.toml"
        file.write_bytes(sources.files["pyproject.toml"].data)
        system: TomlTable = read_toml(file).table("build-system")
    # PEP 517: a project without the table is built by setuptools.
    path = system.strings("backend-path") if "backend-path" in system.members else None
    return SourceProject(
        backend=system.string("build-backend", "setuptools.build_meta:__legacy__"),
        backend_path=path,
        requires=system.strings("requires", ("setuptools",)),
    )


def _needed_sources(sources: SdistArchive, project: Project) -> SdistArchive:
    patterns = project.source_exclude
    kept = {
        path: item
        for path, item in sources.files.items()
        if not any(_matches(path, pattern) for pattern in patterns)
    }
    return SdistArchive(sources.root, kept)


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a pattern names a file, or a folder that the file lies in."""
    folders = [str(parent) for parent in PurePosixPath(path).parents]
    return any(fnmatch.fnmatchcase(item, pattern) for item in [path, *folders])
