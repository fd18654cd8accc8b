"""uv's settings of where packages come from: variables, then files of project, user and system.

Source: uv's documentation, "Configuration files" and "Package indexes". The project is looked for
from the folder that the shell says uv was started in; a hook itself runs inside the sdist.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from variantwheel_selector.fetching.access import WebAccess
from variantwheel_selector.fetching.sources import PackageSources
from variantwheel_selector.fetching.urls import Login, from_folder
from variantwheel_selector.record import field, record

_TRUE = ("1", "true", "yes", "on", "y", "t")
_NO_TOML = "Python 3.10 cannot read TOML; set UV_INDEX or VARIANTWHEEL_INDEX_URL instead"


@record
class _Found:
    """What the files say, the first ones winning.

    Attributes:
        tables: `[tool.uv]` or the whole of a uv.toml, each with the folder of the file.
        read: Files that were read.
        unread: Files that were not, each with the reason.
    """

    tables: list[tuple[Mapping[str, object], Path]] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    def texts(self, *names: str) -> list[str]:
        """Return the strings of lists or strings by these names, in all files."""
        return [
            _local(item, folder)
            for table, folder in self.tables
            for name in names
            for item in _strings(_setting(table, name))
        ]

    def flag(self, name: str) -> bool:
        """Return the first file's answer."""
        for table, _ in self.tables:
            value = _setting(table, name)
            if isinstance(value, bool):
                return value
        return False


@record
class _Index:
    url: str
    name: str = ""
    default: bool = False
    flat: bool = False


def uv_sources(environment: Mapping[str, str]) -> PackageSources:
    """Return what uv is configured for."""
    found = _read_files(environment)
    indexes = [*_variable_indexes(environment), *_file_indexes(found)]
    extra = [*environment.get("UV_EXTRA_INDEX_URL", "").split(), *found.texts("extra-index-url")]
    default = next((index.url for index in indexes if index.default), None)
    default = default or environment.get("UV_INDEX_URL")
    default = default or next(iter(found.texts("index-url")), None)
    urls = [index.url for index in indexes if not index.default and not index.flat]
    started = environment.get("PWD", "")
    links = [from_folder(i, started) for i in environment.get("UV_FIND_LINKS", "").split(",") if i]
    links += [
        from_folder(item, str(folder))
        for table, folder in found.tables
        for item in _strings(_setting(table, "find-links"))
    ]
    no_index = _flag(environment, "UV_NO_INDEX") or found.flag("no-index")
    keyring = environment.get("UV_KEYRING_PROVIDER") or next(
        iter(found.texts("keyring-provider")), "disabled"
    )
    return PackageSources(
        indexes=()
        if no_index
        else tuple(dict.fromkeys([*urls, *extra, *([default] if default else [])])),
        find_links=tuple(dict.fromkeys([*links, *(index.url for index in indexes if index.flat)])),
        no_index=no_index,
        offline=_flag(environment, "UV_OFFLINE") or found.flag("offline"),
        cache=not (_flag(environment, "UV_NO_CACHE") or found.flag("no-cache")),
        keyring=keyring == "subprocess",
        web=WebAccess(
            certificate=environment.get("SSL_CERT_FILE") or environment.get("SSL_CERT_DIR") or None,
            client_certificate=environment.get("SSL_CLIENT_CERT") or None,
            trusted_hosts=(
                *environment.get("UV_INSECURE_HOST", "").split(),
                *found.texts("allow-insecure-host"),
            ),
            timeout=_seconds(environment),
            retries=_retries(environment),
        ),
        logins=_logins(indexes, environment),
        read=tuple(found.read),
        unread=found.unread,
    )


def _read_files(environment: Mapping[str, str]) -> _Found:
    found = _Found()
    stated = environment.get("UV_CONFIG_FILE")
    if _flag(environment, "UV_NO_CONFIG"):
        return found
    candidates = [(Path(stated), False)] if stated else list(_files(environment))
    try:
        toml = importlib.import_module("tomllib")  # since Python 3.11
    except ModuleNotFoundError:
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
        try:
            document: Mapping[str, object] = toml.loads(path.read_text(encoding="utf-8"))
        except OSError:
            continue
        except ValueError as error:
            found.unread[str(path)] = type(error).__name__
            continue
        table: object = document
        if path.name == "pyproject.toml":
            tool = document.get("tool")
            table = tool.get("uv") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            found.tables.append((table, path.parent))
            found.read.append(str(path))
            in_project = in_project or of_project
    return found


def _files(environment: Mapping[str, str]) -> Iterator[tuple[Path, bool]]:
    """Give the files in uv's order, and whether each is a project's, of which the first counts."""
    started = environment.get("UV_PROJECT") or environment.get("PWD") or ""
    if started and Path(started).is_absolute():
        for folder in [Path(started), *Path(started).parents]:
            # A uv.toml hides the table in the pyproject.toml beside it.
            yield folder / "uv.toml", True
            yield folder / "pyproject.toml", True
    home = environment.get("HOME")
    if environment.get("XDG_CONFIG_HOME"):
        yield Path(environment["XDG_CONFIG_HOME"], "uv", "uv.toml"), False
    elif home:
        yield Path(home, ".config", "uv", "uv.toml"), False
    system = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    yield from ((Path(folder, "uv", "uv.toml"), False) for folder in system.split(":") if folder)
    yield Path("/etc/uv/uv.toml"), False


def _variable_indexes(environment: Mapping[str, str]) -> Iterator[_Index]:
    for text, default in (
        *((item, False) for item in environment.get("UV_INDEX", "").split()),
        (environment.get("UV_DEFAULT_INDEX", ""), True),
    ):
        if text:
            name, equal_signs, url = text.partition("=")
            named = bool(equal_signs) and "/" not in name and ":" not in name
            yield _Index(url, name, default) if named else _Index(text, "", default)


def _file_indexes(found: _Found) -> Iterator[_Index]:
    for table, folder in found.tables:
        entries = _setting(table, "index")
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and isinstance(entry.get("url"), str):
                yield _Index(
                    _local(entry["url"], folder),
                    str(entry.get("name", "")),
                    entry.get("default") is True,
                    entry.get("format") == "flat",
                )


def _logins(indexes: list[_Index], environment: Mapping[str, str]) -> dict[str, Login]:
    """Return the logins of `UV_INDEX_<NAME>_USERNAME` and `…_PASSWORD`."""
    logins: dict[str, Login] = {}
    for index in indexes:
        prefix = "UV_INDEX_" + "".join(c if c.isalnum() else "_" for c in index.name.upper())
        user = environment.get(f"{prefix}_USERNAME")
        password = environment.get(f"{prefix}_PASSWORD")
        if index.name and (user or password):
            logins[index.url] = Login(user or "", password)
    return logins


def _setting(table: Mapping[str, object], name: str) -> object:
    """Return a setting; those of `uv pip` stand in a table of their own and win."""
    pip = table.get("pip")
    if isinstance(pip, dict) and name in pip:
        found: object = pip[name]
        return found
    return table.get(name)


def _strings(value: object) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def _local(text: str, folder: Path) -> str:
    """Return a path relative to its configuration file as an absolute one; URLs stay."""
    return str(folder / text) if text.startswith(("./", "../")) else text


def _flag(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in _TRUE


def _seconds(environment: Mapping[str, str]) -> float:
    for name in ("UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT"):
        text = environment.get(name, "")
        if text.isdigit():
            return float(text)
    return 30.0


def _retries(environment: Mapping[str, str]) -> int:
    text = environment.get("UV_HTTP_RETRIES", "")
    return int(text) if text.isdigit() else 3
