"""Copies of this package: into selector sdists, and the vendored `packaging` inside each copy.

In an sdist, the modules of the hooks that are called for every installation are files; all others
stand in one archive, since pip and uv take about half a millisecond for each file of an sdist.
"""

from __future__ import annotations

import ast
import importlib.metadata
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from variantwheel_selector.errors import SelectorError

_PACKAGE = "variantwheel_selector"
_VENDORED = "packaging"
_ARCHIVE = "modules.zip"
_FILES = ("__init__", "backend", "config_paths", "errors", "header_fields", "hooks", "project_name")
"""Modules that `get_requires_for_build_wheel` and `prepare_metadata_for_build_wheel` import."""
_OLDEST = (1980, 1, 1, 0, 0, 0)


def copy_package(folder: Path) -> Path:
    """Copy this package, `packaging` included, to `folder/variantwheel_selector`.

    Args:
        folder: The folder that an sdist's `backend-path` names; must not hold a copy yet.

    Returns:
        The folder of the copy: a few modules, and the archive of all others. The same package
        always gives the same bytes.
    """
    here = Path(__file__).resolve().parent
    target = folder / _PACKAGE
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name, _PACKAGE)
        shutil.copytree(here, whole, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        if not (whole / "_vendor" / _VENDORED).is_dir():
            vendor_packaging(whole / "_vendor")
        for module in _FILES:
            (whole / f"{module}.py").replace(target / f"{module}.py")
        # Not compressed: the sdist is, and better as a whole.
        with zipfile.ZipFile(target / _ARCHIVE, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(whole.rglob("*")):
                if path.is_file():
                    info = zipfile.ZipInfo(path.relative_to(name).as_posix(), _OLDEST)
                    info.create_system, info.external_attr = 3, 0o100644 << 16
                    archive.writestr(info, path.read_bytes())
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
