"""Builds the project from the sources in a selector sdist, through its own PEP 517 hooks."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from variantwheel_selector.errors import SourceBuildError
from variantwheel_selector.manifest import SourceProject
from variantwheel_selector.source_archive import unpack_sources


def build_from_source(
    archive: Path, source: SourceProject, wheel_directory: Path, config_settings: dict[str, object]
) -> str:
    """Build a wheel and return its file name.

    Args:
        archive: The project's sources.
        source: How the project is built.
        wheel_directory: Absolute; where the wheel goes.
        config_settings: For the project's own hooks.

    Raises:
        SourceBuildError: There are no sources, or the build's requirements are not installed.
    """
    with tempfile.TemporaryDirectory(prefix="variantwheel-source-") as name:
        root = Path(name).resolve()
        unpack_sources(archive, root)
        with _inside(root, source):
            return _build_wheel_hook(source)(str(wheel_directory), config_settings or None, None)


@contextlib.contextmanager
def _inside(root: Path, source: SourceProject) -> Iterator[None]:
    """Work in the source tree, with its `backend-path` first in the search for modules."""
    before_path, before_folder = list(sys.path), Path.cwd()
    sys.path[:0] = [str(root / entry) for entry in source.backend_path or ()]
    os.chdir(root)
    try:
        yield
    finally:
        os.chdir(before_folder)
        sys.path[:] = before_path


def _build_wheel_hook(source: SourceProject) -> Callable[[str, object, str | None], str]:
    module_name, _, attributes = source.backend.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SourceBuildError(
            f"the source build needs {error.name!r}, which is not installed; without build "
            f"isolation install first: {' '.join(source.requires) or source.backend}"
        ) from error
    for attribute in filter(None, attributes.split(".")):
        found = getattr(found, attribute)
    hook: Callable[[str, object, str | None], str] = getattr(found, "build_wheel")  # noqa: B009
    return hook
