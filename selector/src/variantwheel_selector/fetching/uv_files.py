"""uv's configuration files: which of them count, and what stands in them.

Source: uv's documentation, "Configuration files". The project is looked for from the folder that uv
runs in, or from the one that `UV_PROJECT` names; a hook itself runs inside the sdist.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from variantwheel_selector.fetching.uv_workspace import settings_folder
from variantwheel_selector.installer_folder import NO_FOLDER, from_folder
from variantwheel_selector.record import field, record

_TRUE = ("1", "true", "yes", "on", "y", "t")
_NO_TOML = "Python 3.10 cannot read TOML; set UV_INDEX or VARIANTWHEEL_INDEX_URL instead"


@record
class UvFiles:
    """What the files say, the first ones winning.

    Attributes:
        tables: `[tool.uv]` or the whole of a uv.toml, each with the folder of the file.
        read: Files that were read.
        unread: Files that were not, each with the reason.
    """

    tables: list[tuple[Mapping[str, object], str]] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    def texts(self, name: str) -> list[str]:
        """Return the strings of lists or strings by this name, in all files."""
        return [item for table, _ in self.tables for item in strings(setting(table, name))]

    def paths(self, name: str) -> list[str]:
        """Return URLs, and paths as seen from the folder of their file."""
        return [
            from_folder(item, folder)
            for table, folder in self.tables
            for item in strings(setting(table, name))
        ]

    def flag(self, name: str) -> bool:
        """Return the first file's answer."""
        for table, _ in self.tables:
            value = setting(table, name)
            if isinstance(value, bool):
                return value
        return False


def read_uv_files(environment: Mapping[str, str], folder: str) -> UvFiles:
    """Read the files that count.

    Args:
        environment: Environment variables; they also tell where the files are.
        folder: The one that uv runs in; empty where it is not known.
    """
    found = UvFiles()
    if is_set(environment, "UV_NO_CONFIG"):
        return found
    stated = from_folder(environment.get("UV_CONFIG_FILE", ""), folder)
    try:
        toml = importlib.import_module("tomllib")  # since Python 3.11
    except ModuleNotFoundError:
        toml = None
    started = project_folder(environment, folder)
    if toml is not None and started:
        started = str(settings_folder(Path(started), toml.loads))
    candidates = [(Path(stated), False)] if stated else list(_files(environment, folder, started))
    if toml is None:
        found.unread.update(
            {
                str(path): _NO_TOML
                for path, _ in candidates
                if path.suffix == ".toml" and path.name != "pyproject.toml" and path.is_file()
            }
        )
        return found
    in_project = False
    for path, of_project in candidates:
        if of_project and in_project:
            continue
        if not path.is_absolute():
            found.unread[str(path)] = NO_FOLDER
            continue
        try:
            document: Mapping[str, object] = toml.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            if stated:
                found.unread[str(path)] = error.strerror or type(error).__name__
            continue
        except ValueError as error:
            found.unread[str(path)] = type(error).__name__
            continue
        table: object = document
        if path.name == "pyproject.toml":
            tool = document.get("tool")
            table = tool.get("uv") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            found.tables.append((table, str(path.parent)))
            found.read.append(str(path))
            in_project = in_project or of_project
    return found


def project_folder(environment: Mapping[str, str], folder: str) -> str:
    """Return the folder from which a project is looked for; empty where it is not known."""
    started = from_folder(environment.get("UV_PROJECT", ""), folder) or folder
    return started if Path(started).is_absolute() else ""


def setting(table: Mapping[str, object], name: str) -> object:
    """Return a setting; those of `uv pip` stand in a table of their own and win."""
    pip = table.get("pip")
    if isinstance(pip, dict) and name in pip:
        found: object = pip[name]
        return found
    return table.get(name)


def strings(value: object) -> list[str]:
    """Return the strings of a list, or the one that stands there instead."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Tell whether uv takes a variable for true."""
    return environment.get(name, "").lower() in _TRUE


def _files(
    environment: Mapping[str, str], folder: str, started: str
) -> Iterator[tuple[Path, bool]]:
    """Give the files in uv's order, and whether each is a project's, of which the first counts.

    Args:
        environment: Environment variables.
        folder: The one that uv runs in.
        started: The one from which a project's files are looked for upwards.
    """
    if started:
        for place in [Path(started), *Path(started).parents]:
            # A uv.toml hides the table in the pyproject.toml beside it.
            yield place / "uv.toml", True
            yield place / "pyproject.toml", True
    home = from_folder(environment.get("HOME", ""), folder)
    stated = environment.get("XDG_CONFIG_HOME", "")
    if Path(stated).is_absolute():  # XDG: relative paths do not count
        yield Path(stated, "uv", "uv.toml"), False
    elif home:
        yield Path(home, ".config", "uv", "uv.toml"), False
    system = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    for item in filter(None, system.split(":")):
        yield Path(from_folder(item, folder), "uv", "uv.toml"), False
    yield Path("/etc/uv/uv.toml"), False
