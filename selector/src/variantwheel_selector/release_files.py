"""Which of the files that an index or a folder lists are those of a project's version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from variantwheel_selector.errors import InvalidNameError, NothingFitsError, ReleaseError
from variantwheel_selector.missing_project import folder_advice
from variantwheel_selector.packaging_library import version
from variantwheel_selector.requires_python import PythonFilter
from variantwheel_selector.simple_index import IndexFile
from variantwheel_selector.wheel_name import WheelName, normalize_project


def project_versions(files: Collection[IndexFile], project: str) -> set[str]:
    """Return the versions of which there is a wheel or a source distribution."""
    wheels = {name.version for name, _ in project_wheels(files, project)}
    return wheels | set(project_sdists(files, project))


def project_sdists(files: Iterable[IndexFile], project: str) -> dict[str, IndexFile]:
    """Return a project's source distributions by version."""
    found: dict[str, IndexFile] = {}
    for file in files:
        stem, dot, _ = file.filename.rpartition(".tar.gz")
        name, dash, text = stem.rpartition("-")
        same = bool(dot and dash) and normalize_project(name) == normalize_project(project)
        if same:
            found[text] = file
    return found


def project_wheels(files: Iterable[IndexFile], project: str) -> list[tuple[WheelName, IndexFile]]:
    """Return a project's wheels, of all versions."""
    found: list[tuple[WheelName, IndexFile]] = []
    for file in files:
        if not file.filename.endswith(".whl"):
            continue
        try:
            name = WheelName.from_str(file.filename)
        except InvalidNameError:
            continue  # as installers do: an index may hold what a later standard allows
        if normalize_project(name.distribution) == normalize_project(project):
            found.append((name, file))
    return found


def not_yanked(
    files: Collection[IndexFile],
    wanted: str | None,
    versions: Callable[[Collection[IndexFile]], Iterable[str]],
) -> Collection[IndexFile]:
    """Return the files that installers look at: yanked ones only if nothing else is what is wanted.

    Source: PEP 592, as pip and uv follow it.

    Args:
        files: All of a project.
        wanted: The one version that is asked for, or none.
        versions: Gives those of some files.
    """
    kept = [file for file in files if file.yanked is None]
    if wanted is None or _parse_version(wanted) in map(_parse_version, versions(kept)):
        return kept
    return files


def nothing_advice(
    files: Collection[IndexFile],
    project: str,
    versions: Callable[[Collection[IndexFile]], Iterable[str]],
) -> str:
    """Return the end of a sentence that says that there is nothing of a project."""
    yanked = ", ".join(sorted(versions(files)))
    if yanked:
        return f" but what was yanked, {yanked}; {project}==VERSION asks for it all the same"
    return folder_advice([file.filename for file in files], project)


def yank_reason(files: Iterable[IndexFile]) -> str | None:
    """Return why files of a version were yanked; empty without a reason, none if they were not."""
    reasons = [file.yanked for file in files if file.yanked is not None]
    return max(reasons, default=None, key=bool)


def yank_lines(release: str, yanked: str | None) -> list[str]:
    """Return what people are told of a release that was yanked, in lines.

    Args:
        release: Project and version.
        yanked: As `yank_reason` returns it.
    """
    if yanked is None:
        return []
    reason = f": {yanked}" if yanked else ", without a reason"
    return [f"{release} was taken back by its publisher (yanked){reason}"]


def choose_version(
    found: set[str],
    project: str,
    wanted: str | None,
    place: str,
    advice: str,
    python: PythonFilter,
) -> str:
    """Return the version asked for as it is spelt here, or the newest that is for a Python.

    Args:
        found: The versions that there are.
        project: For messages.
        wanted: A version, whatever Python it is for, or none for the newest.
        place: For messages.
        advice: What to add where there is none.
        python: Leaves versions out, as pip does before it looks for the newest.

    Raises:
        ReleaseError: There is none.
        NothingFitsError: There is none for the Python.
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
    if not parsed:
        raise ReleaseError(f"{place} has nothing of {project}{advice}")
    refused: list[str] = []
    # Prereleases only where no other version is left.
    for key in sorted(parsed, key=lambda key: (not key.is_prerelease, key), reverse=True):
        requirement = python.requirement(parsed[key])
        if not requirement:
            return parsed[key]
        refused.append(f"{key} needs {requirement}")
    raise NothingFitsError(
        f"{place} has no {project} for Python {python.words()}: {', '.join(refused)}"
    )


def _parse_version(text: str) -> version.Version | None:
    try:
        return version.Version(text)
    except version.InvalidVersion:
        return None
