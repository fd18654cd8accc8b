"""The files that a static index offers, and what its pages say about each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidSdistFilename, parse_sdist_filename

from variantwheel.core_metadata import parse_core_metadata
from variantwheel.errors import ReleaseFolderError
from variantwheel.labelling import VARIANT_JSON
from variantwheel.sdist_archive import read_sdist
from variantwheel.wheel_archive import WheelArchive, read_wheel
from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.variants_json import (
    VariantsInfo,
    parse_variants_json,
    render_variants_json,
)
from variantwheel_selector.wheel_name import normalize_project

METADATA_SUFFIX = ".metadata"
"""PEP 658: beside a wheel lies its METADATA, so that nobody downloads the wheel to read it."""

_VARIANTS_JSON_NAME = re.compile(r"(?P<project>[^-]+)-(?P<version>[^-]+)-variants\.json")


@dataclass(frozen=True)
class IndexFile:
    """One file of one project.

    Attributes:
        name: Its file name.
        project: The project's normalised name.
        version: Of the release.
        kind: `wheel`, `sdist` or `variants`.
        content: The file, or the bytes of one that is made.
        sha256: The digest in hexadecimal.
        size: In bytes.
        label: The variant label of a wheel, or none.
        requires_python: From the metadata.
        metadata: METADATA of a wheel.
        variants: What a variant wheel or a variants.json says about labels.
        mislabelled: How the name of a wheel contradicts the variant.json inside; empty where it
            does not.
    """

    name: str
    project: str
    version: str
    kind: str
    content: Path | bytes
    sha256: str
    size: int
    label: str | None = None
    requires_python: str | None = None
    metadata: bytes | None = None
    variants: VariantsInfo | None = None
    mislabelled: str = ""


def made_variants_file(name: str, project: str, version: str, info: VariantsInfo) -> IndexFile:
    """Make a release's variants.json."""
    data = render_variants_json(info).encode()
    digest = hashlib.sha256(data).hexdigest()
    return IndexFile(name, project, version, "variants", data, digest, len(data), variants=info)


def read_index_files(folder: Path) -> dict[str, IndexFile]:
    """Read what a folder offers, by file name; files of other kinds are left out.

    Raises:
        WheelFormatError: A wheel is none.
        SdistFormatError: A source distribution is none.
        ReleaseFolderError: A `.tar.gz` does not have the name of a source distribution.
    """
    files: dict[str, IndexFile] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file():
            continue
        file = _read_index_file(path)
        if file is not None:
            files[file.name] = file
    return files


def _read_index_file(path: Path) -> IndexFile | None:
    if path.name.endswith(".whl"):
        return _read_wheel(path)
    if path.name.endswith(".tar.gz"):
        _check_printable(path)
        return _read_sdist(path)
    found = _VARIANTS_JSON_NAME.fullmatch(path.name)
    if found is None:
        return None
    _check_printable(path)
    return IndexFile(
        name=path.name,
        project=normalize_project(found["project"]),
        version=found["version"],
        kind="variants",
        content=path,
        sha256=_digest(path),
        size=path.stat().st_size,
        variants=_parse_variants(path.read_bytes(), str(path)),
    )


def _check_printable(path: Path) -> None:
    """Refuse a name that would steer the terminals and break the pages of whoever is shown it."""
    if not path.name.isprintable():
        raise ReleaseFolderError(f"{path}: has a control character in its name; remove it")


def _read_wheel(path: Path) -> IndexFile:
    archive = read_wheel(path)
    metadata = archive.dist_info_file("METADATA")
    label = archive.name.label
    variants = None if label is None else _wheel_variants(archive)
    return IndexFile(
        name=path.name,
        project=normalize_project(archive.name.distribution),
        version=archive.name.version,
        kind="wheel",
        content=path,
        sha256=_digest(path),
        size=path.stat().st_size,
        label=label,
        requires_python=parse_core_metadata(metadata).requires_python,
        metadata=metadata,
        variants=variants,
        mislabelled=_mislabelled(archive, variants),
    )


def _mislabelled(archive: WheelArchive, variants: VariantsInfo | None) -> str:
    if variants is None:
        if f"{archive.dist_info}/{VARIANT_JSON}" not in archive.files:
            return ""
        return (
            f"its name has no label, but it holds a {VARIANT_JSON}: stock installers would take "
            "this variant on every machine"
        )
    inside = list(variants.variants)
    if inside == [archive.name.label]:
        return ""
    return f"its name says {archive.name.label!r}, {VARIANT_JSON} inside {', '.join(inside)!r}"


def _wheel_variants(archive: WheelArchive) -> VariantsInfo:
    return _parse_variants(archive.dist_info_file(VARIANT_JSON), f"{archive.name}: {VARIANT_JSON}")


def _parse_variants(data: bytes, place: str) -> VariantsInfo:
    try:
        return parse_variants_json(data, place)
    except VariantsJsonError as error:
        raise ReleaseFolderError(f"{error}; make it anew with `variantwheel build`") from error


def _read_sdist(path: Path) -> IndexFile:
    try:
        project, version = parse_sdist_filename(path.name)
    except InvalidSdistFilename as error:
        raise ReleaseFolderError(
            f"{path}: is no source distribution by its name, NAME-VERSION.tar.gz; remove it"
        ) from error
    info = read_sdist(path).files.get("PKG-INFO")
    requires_python = None if info is None else parse_core_metadata(info.data).requires_python
    return IndexFile(
        name=path.name,
        project=project,
        version=str(version),
        kind="sdist",
        content=path,
        sha256=_digest(path),
        size=path.stat().st_size,
        requires_python=requires_python,
    )


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while piece := content.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def by_project(files: Mapping[str, IndexFile]) -> dict[str, list[IndexFile]]:
    """Group files by project, both sorted by name."""
    projects: dict[str, list[IndexFile]] = {}
    for name in sorted(files):
        projects.setdefault(files[name].project, []).append(files[name])
    return dict(sorted(projects.items()))
