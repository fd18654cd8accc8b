"""Copies of this package: into selector sdists, and the vendored `packaging` inside each copy."""

from __future__ import annotations

import ast
import importlib.metadata
import shutil
from pathlib import Path, PurePosixPath

from variantwheel_selector.errors import SelectorError

_PACKAGE = "variantwheel_selector"
_VENDORED = "packaging"


def copy_package(folder: Path) -> Path:
    """Copy this package, `packaging` included, to `folder/variantwheel_selector`.

    Args:
        folder: The folder that an sdist's `backend-path` names; must not hold a copy yet.

    Returns:
        The folder of the copy.
    """
    here = Path(__file__).resolve().parent
    target = folder / _PACKAGE
    shutil.copytree(here, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    if not (target / "_vendor" / _VENDORED).is_dir():
        vendor_packaging(target / "_vendor")
    return target


def vendor_packaging(folder: Path) -> list[Path]:
    """Copy the installed `packaging` with its licence files to `folder/packaging`.

    Its modules import each other relatively, so that the copy works under another name; a release
    of which this is not true is refused.

    Returns:
        The files written, sorted.

    Raises:
        SelectorError: `packaging` is not installed, or imports itself by its full name.
    """
    try:
        distribution = importlib.metadata.distribution(_VENDORED)
    except importlib.metadata.PackageNotFoundError as error:
        raise SelectorError(
            f"{_VENDORED!r} is not installed, so that it cannot be copied"
        ) from error
    written: list[Path] = []
    for path in distribution.files or ():
        target = _target(path)
        if target is None:
            continue
        content = Path(str(distribution.locate_file(path))).read_bytes()
        if target.suffix == ".py":
            _check_imports(content, str(path))
        place = folder / _VENDORED / target
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        written.append(place)
    if not written:
        raise SelectorError(f"the installed {_VENDORED!r} does not list its files")
    return sorted(written)


def _target(path: PurePosixPath) -> PurePosixPath | None:
    """Return where a file of the distribution goes inside the copy, or none if it stays behind."""
    top = path.parts[0]
    if top == _VENDORED and path.suffix in (".py", ".typed"):
        return path.relative_to(_VENDORED)
    if top.endswith(".dist-info") and path.name.startswith(("LICENSE", "COPYING", "NOTICE")):
        return PurePosixPath(path.name)
    return None


def _check_imports(source: bytes, name: str) -> None:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        if any(found.split(".")[0] == _VENDORED for found in names):
            raise SelectorError(
                f"{name} line {node.lineno} imports {_VENDORED!r} by its full name, so that a copy "
                "does not work; another release of it is needed"
            )
