"""uv's workspaces: whose settings count for a folder of one.

Source: uv's documentation, "Using workspaces". All members of a workspace have the settings of its
root, whatever their own `[tool.uv]` says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

Document = Mapping[str, object]


def settings_folder(started: Path, read: Callable[[str], Document]) -> Path:
    """Return the folder from which uv goes upwards to find a project's settings.

    Args:
        started: Where it begins to look for a project; absolute.
        read: Reads TOML.
    """
    project = _with_project_file([started, *started.parents])
    document = _document(project, read) if project is not None else {}
    own = _table(document, "tool", "uv")
    if project is None or own.get("managed") is False:
        return started
    if "workspace" in own:
        return project
    if "project" not in document:
        return started
    root = _with_project_file(project.parents)
    workspace = _table(_document(root, read), "tool", "uv", "workspace") if root else {}
    if root is not None and _names(workspace, "members", root, project):
        return project if _names(workspace, "exclude", root, project) else root
    return project


def _with_project_file(folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / "pyproject.toml").is_file()), None)


def _document(folder: Path, read: Callable[[str], Document]) -> Document:
    """Return a pyproject.toml; nothing where it cannot be read."""
    try:
        return read((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _table(document: Document, *names: str) -> Document:
    found: object = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _names(workspace: Document, key: str, root: Path, project: Path) -> bool:
    """Tell whether one of the patterns under a key names a folder."""
    patterns = workspace.get(key)
    parts = project.relative_to(root).parts
    return any(
        isinstance(pattern, str) and _matches(parts, Path(os.path.normpath(pattern)).parts)
        for pattern in (patterns if isinstance(patterns, list) else [])
    )


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Match a path; `**` is any number of folders, at its end one or more."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return bool(parts) and any(
            _matches(parts[at:], pattern[1:]) for at in range(len(parts) + 1)
        )
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
