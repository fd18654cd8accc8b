"""Spellings of a project's name; apart from wheel names, so that a hook can have them cheaply."""

from __future__ import annotations

import re


def normalize_project(name: str) -> str:
    """Return a project's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def escape_project(name: str) -> str:
    """Return a project's name as file names spell it."""
    return normalize_project(name).replace("-", "_")
