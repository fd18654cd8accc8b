"""Says what may be wrong where an index or a folder has nothing of a project."""

from __future__ import annotations

from collections.abc import Iterable

from variantwheel_selector.errors import DownloadError, InvalidNameError, ReleaseError
from variantwheel_selector.fetching.urls import redacted
from variantwheel_selector.fetching.web import WebClient
from variantwheel_selector.project_name import normalize_project
from variantwheel_selector.simple_index import fetch_project_names
from variantwheel_selector.suggestion import near
from variantwheel_selector.wheel_name import WheelName

_FEW = 6
_VARIANTS_JSON = "-variants.json"


def folder_advice(filenames: Iterable[str], project: str) -> str:
    """Return the end of a sentence that names projects of a folder, or nothing.

    Args:
        filenames: Of the folder.
        project: That of which there is nothing.
    """
    return _others(project, projects_of(filenames))


def index_advice(index: str, project: str, problem: str, client: WebClient) -> str:
    """Return more lines for an error where the index answers that there is no such page.

    Args:
        index: Its URL.
        project: That of which there is no page.
        problem: What the index answered.
        client: Asks the index for the names of its projects.
    """
    if "the server says 404" not in problem:
        return ""
    name, address = normalize_project(project), redacted(index).rstrip("/")
    missing = f"\nthe index has no page {address}/{name}/"
    try:
        found = _others(project, fetch_project_names(index, client))
    except (DownloadError, ReleaseError):
        found = ""
    if found:
        return f"{missing}{found}"
    perhaps = "" if address.endswith("simple") else f", {address}/simple perhaps"
    return (
        f"{missing}: check the project's name, and that --index is the address that pip's"
        f" --index-url takes{perhaps}"
    )


def projects_of(filenames: Iterable[str]) -> set[str]:
    """Return the projects whose wheels, sdists and variants.json are among some files."""
    found: set[str] = set()
    for filename in filenames:
        name = ""
        if filename.endswith(".whl"):
            try:
                name = WheelName.from_str(filename).distribution
            except InvalidNameError:
                continue
        elif filename.endswith(".tar.gz"):
            name = filename.removesuffix(".tar.gz").rpartition("-")[0]
        elif filename.endswith(_VARIANTS_JSON):
            name = filename.removesuffix(_VARIANTS_JSON).rpartition("-")[0]
        if name:
            found.add(normalize_project(name))
    return found


def _others(project: str, names: Iterable[str]) -> str:
    """Return which projects may have been meant, or all if they are few."""
    known = sorted({normalize_project(name) for name in names} - {normalize_project(project)})
    close = near(normalize_project(project), known)
    if close:
        return f" - did you mean {' or '.join(repr(name) for name in close)}?"
    return f"; it has {', '.join(known)}" if 0 < len(known) <= _FEW else ""
