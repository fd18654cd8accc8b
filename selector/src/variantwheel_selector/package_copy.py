"""Copies of this package into selector sdists, and of `packaging` into this package's wheel.

In an sdist, the modules that all hooks need are files. All others that hooks can come to import
stand in one bundle; the command line's stay behind, and so does
`packaging`, which no hook needs.
"""

from __future__ import annotations

import ast
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from variantwheel_selector.errors import SelectorError
from variantwheel_selector.module_bundle import BUNDLE

_PACKAGE = "variantwheel_selector"
_VENDORED = "packaging"
_FILES = ("__init__.py", "backend.py", "config_paths.py", "module_bundle.py")
"""What all hooks import, so that what the first one has compiled serves the others."""
_ROOTS = ("backend.py", "nvidia_query.py")
"""What front ends import, and what is read as a text, for a process of its own."""


def copy_package(folder: Path) -> Path:
    """Copy this package to `folder/variantwheel_selector`.

    Args:
        folder: The folder that an sdist's `backend-path` names; must not hold a copy yet.

    Returns:
        The folder of the copy: a few modules, and the bundle of all others. The same package
        always gives the same bytes.
    """
    here = Path(__file__).resolve().parent
    target = folder / _PACKAGE
    target.mkdir(parents=True)
    paths = {path.relative_to(here).as_posix(): path for path in here.rglob("*.py")}
    files = reachable_files({name: path.read_bytes() for name, path in paths.items()})
    for name in _FILES:
        (target / name).write_bytes(files.pop(name))
    (target / BUNDLE).write_bytes(render_bundle(files))
    return target


def render_bundle(files: Mapping[str, bytes]) -> bytes:
    """Write a bundle of files by their paths; the same files always give the same bytes."""
    paths = sorted(files)
    index = "".join(f"{len(files[path])} {path}\n" for path in paths)
    return b"".join([index.encode("utf-8"), b"\n", *(files[path] for path in paths)])


def reachable_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the modules of this package that hooks can need.

    Args:
        files: All modules by their paths in the package.
    """
    found: set[str] = set()
    waiting = [path for path in _ROOTS if path in files]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        folders = PurePosixPath(path).parents
        named = {str(folder) for folder in folders} | _imported(files[path], path)
        candidates = {p for name in named for p in (f"{name}.py", f"{name}/__init__.py")}
        waiting += sorted((candidates | {"__init__.py"}) & files.keys())
    return {path: data for path, data in files.items() if path in found}


def _imported(source: bytes, path: str) -> set[str]:
    """Return what a module imports of this package, anywhere in it, as paths without suffix."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            if node.level:
                folder = PurePosixPath(_PACKAGE, path).parents[node.level - 1]
                start = ".".join([*folder.parts, *filter(None, [start])])
            names = [start, *(f"{start}.{alias.name}" for alias in node.names)]
        inside = [name for name in names if name.startswith(f"{_PACKAGE}.")]
        found |= {name.removeprefix(f"{_PACKAGE}.").replace(".", "/") for name in inside}
    return found


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
