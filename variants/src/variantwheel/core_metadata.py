"""The core metadata of a distribution, and whether all of it is static."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.metadata import parse_email
from packaging.utils import canonicalize_version

_FIRST_STATIC = (2, 2)
"""Metadata 2.2 (PEP 643): the first version in which a field that is not Dynamic is final."""

_HARMLESS_DYNAMIC = frozenset({"license-file"})
"""setuptools marks it although it never changes; no installer decides anything by it."""


@dataclass(frozen=True)
class CoreMetadata:
    """The fields of METADATA or PKG-INFO that decide how a release is installed.

    Attributes:
        metadata_version: As text, such as `2.4`.
        dynamic: Fields that a build may still change.
        license_files: Paths of the licence files.
    """

    metadata_version: str
    name: str
    version: str
    requires_python: str | None
    dynamic: tuple[str, ...]
    license_files: tuple[str, ...]


def parse_core_metadata(data: bytes) -> CoreMetadata:
    """Read METADATA or PKG-INFO; missing fields are empty."""
    raw, _ = parse_email(data)
    return CoreMetadata(
        metadata_version=raw.get("metadata_version", ""),
        name=raw.get("name", ""),
        version=raw.get("version", ""),
        requires_python=raw.get("requires_python"),
        dynamic=tuple(raw.get("dynamic", ())),
        license_files=tuple(raw.get("license_files", ())),
    )


def version_advice(metadata: CoreMetadata, normal: str) -> str:
    """Return the end of a sentence for versions that are written in two ways, or nothing.

    Args:
        metadata: Of a wheel.
        normal: The version in the wheel's name.
    """
    same = canonicalize_version(metadata.version) == canonicalize_version(normal)
    if not same or metadata.version == normal:
        return ""
    return (
        f"; build backends name wheels after a version's normal form: state {normal!r} in place of "
        f"{metadata.version!r} in the project's metadata"
    )


def static_metadata_problems(metadata: CoreMetadata) -> list[str]:
    """Word what keeps uv and pip from trusting the metadata without a build."""
    problems: list[str] = []
    parts = metadata.metadata_version.split(".")
    if not all(part.isdigit() for part in parts) or tuple(map(int, parts)) < _FIRST_STATIC:
        problems.append(
            f"Metadata-Version is {metadata.metadata_version or 'missing'}, 2.2 or newer is needed"
        )
    changing = [name for name in metadata.dynamic if name.lower() not in _HARMLESS_DYNAMIC]
    if changing:
        problems.append(f"Dynamic: {', '.join(changing)}; state these fields in [project] instead")
    return problems
