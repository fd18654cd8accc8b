"""A static index: a release folder added to a site that any plain web server can serve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from variantwheel.atomic_file import replace_by_copy, replace_file
from variantwheel.errors import IndexConflictError, ReleaseFolderError
from variantwheel.folder_lock import locked_folder
from variantwheel.index_files import (
    METADATA_SUFFIX,
    IndexFile,
    by_project,
    made_variants_file,
    read_index_files,
)
from variantwheel.index_pages import project_json, project_page, root_json, root_page
from variantwheel.release_folder import variants_json_name
from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.variants_json import VariantsInfo
from variantwheel_selector.variants_merge import merge_variants_info

_ADVICE = {
    "wheel": "release a new version",
    "sdist": "release a new version, for which all wheels are built. To add no more than wheels to "
    "this one, build them into a folder of their own, and add that",
}
"""What to do about a file that is published already, by its kind."""


@dataclass(frozen=True)
class SiteUpdate:
    """What an update of a site writes.

    Attributes:
        projects: All projects of the site, with all their files.
        added: Names of the files that were not on the site.
        warnings: What is allowed and probably not meant, in words.
    """

    projects: Mapping[str, list[IndexFile]]
    added: tuple[str, ...]
    warnings: tuple[str, ...]


def update_site(release: Path, site: Path, report: Callable[[str], None]) -> SiteUpdate:
    """Add a release folder to a site; runs at the same time wait for each other.

    Args:
        release: The folder with wheels, sdists and variants.json files.
        site: Its pages are in the folder `simple`.
        report: Called with lines of progress.

    Raises:
        IndexConflictError: See `plan_site`; nothing is changed.
        ReleaseFolderError: The folder offers nothing.
    """
    told = f"{site}: another run adds to this site; waiting for it"
    with locked_folder(site, ".lock", lambda: report(told)):
        update = plan_site(release, site / "simple")
        write_site(update, site / "simple")
    return update


def plan_site(release: Path, simple: Path) -> SiteUpdate:
    """Compare a release folder with a site; nothing is written.

    Args:
        release: The folder with wheels, sdists and variants.json files.
        simple: The site's folder `simple`, which may be missing.

    Raises:
        IndexConflictError: A file is on the site with other bytes, or the site's variants.json
            says something else about a label.
        ReleaseFolderError: The folder offers nothing, or a wheel whose name is not its own.
    """
    offered = read_index_files(release)
    if not offered:
        raise ReleaseFolderError(f"{release}: holds neither wheels nor source distributions")
    for file in offered.values():
        if file.mislabelled:
            raise ReleaseFolderError(
                f"{release / file.name}: {file.mislabelled}; nothing was changed; give it back "
                "the name that it was built with, or build it anew"
            )
    present = _read_site(simple)
    files = dict(present)
    for name, file in offered.items():
        known = present.get(name)
        if known is not None and known.sha256 != file.sha256 and file.kind != "variants":
            raise IndexConflictError(
                f"{name} is on the index already, with other bytes "
                f"(sha256 {known.sha256[:16]}… there, {file.sha256[:16]}… here); nothing was "
                f"changed; a file that was published never changes: {_ADVICE[file.kind]}"
            )
        files[name] = file
    before = [file for file in present.values() if file.kind == "variants"]
    files |= _variants_files(files.values(), before)
    return SiteUpdate(
        projects=by_project(files),
        added=tuple(sorted(set(files) - set(present))),
        warnings=tuple(_shadowed(files.values())),
    )


def write_site(update: SiteUpdate, simple: Path) -> None:
    """Write an update: first the files, then the pages that link them, each at once.

    Args:
        update: What to write.
        simple: The site's folder `simple`.
    """
    for project, files in update.projects.items():
        for file in files:
            _place(simple / project / file.name, file.content)
            if file.metadata is not None:
                _write(simple / project / f"{file.name}{METADATA_SUFFIX}", file.metadata)
    for project, files in update.projects.items():
        _write(simple / project / "index.json", project_json(project, files).encode())
        _write(simple / project / "index.html", project_page(project, files).encode())
    _write(simple / "index.json", root_json(update.projects).encode())
    _write(simple / "index.html", root_page(update.projects).encode())


def _place(target: Path, content: Path | bytes) -> None:
    if isinstance(content, bytes):
        _write(target, content)
    elif content != target and not target.is_file():
        # A published file never changes: one that is there is the same.
        replace_by_copy(target, content)


def _write(target: Path, data: bytes) -> None:
    if not target.is_file() or target.read_bytes() != data:
        replace_file(target, data)


def _read_site(simple: Path) -> dict[str, IndexFile]:
    files: dict[str, IndexFile] = {}
    if simple.is_dir():
        for folder in sorted(path for path in simple.iterdir() if path.is_dir()):
            files |= read_index_files(folder)
    return files


def _variants_files(
    files: Iterable[IndexFile], replaced: Iterable[IndexFile]
) -> dict[str, IndexFile]:
    """Make the variants.json of each release: what its wheels and the files at hand say.

    Args:
        files: The site's files after the update.
        replaced: The variants.json files before it, which must not be contradicted.
    """
    parts: dict[tuple[str, str], list[VariantsInfo]] = {}
    for file in [*replaced, *files]:
        if file.variants is not None:
            parts.setdefault((file.project, file.version), []).append(file.variants)
    found: dict[str, IndexFile] = {}
    for (project, version), infos in parts.items():
        name = variants_json_name(project, version)
        try:
            info = merge_variants_info(infos)
        except VariantsJsonError as error:
            raise IndexConflictError(
                f"{name}: the variants of the release contradict each other: {error}; nothing was "
                "changed"
            ) from error
        found[name] = made_variants_file(name, project, version, info)
    return found


def _shadowed(files: Iterable[IndexFile]) -> list[str]:
    """Word which releases offer a plain wheel beside variants."""
    releases: dict[tuple[str, str], list[IndexFile]] = {}
    for file in files:
        if file.kind == "wheel":
            releases.setdefault((file.project, file.version), []).append(file)
    return [
        f"{plain.name}: stock pip prefers this plain wheel to the selector sdist, so that it "
        "installs no variant"
        for wheels in releases.values()
        if any(wheel.label is not None for wheel in wheels)
        for plain in wheels
        if plain.label is None
    ]
