"""Configuration files: where they are, and what each of them states.

Two files are read as far as they exist, in the strict part of TOML that `parse/toml_subset.py`
accepts: the user's and the site's. The current folder is never looked at: in a build it is the
sdist of a stranger.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from variantwheel_selector.config_paths import CONFIG_VARIABLE, site_files, user_files
from variantwheel_selector.errors import SettingsError
from variantwheel_selector.record import record
from variantwheel_selector.setting_keys import ASSUME_PREFIX, BY_NAME
from variantwheel_selector.suggestion import suggestion
from variantwheel_selector.wheel_name import normalize_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from variantwheel_selector.parse.toml_subset import TomlEntry

LOCKED = "locked"
"""Key of a site file: the settings that nothing else may change."""

_FILE_LIMIT = 64 * 1024
_ASSUME, _PROJECT = "assume", "project"
_GENERAL_WORDS = ("gpu", "cpu", "nvidia", "amd", "x86_64", "aarch64")


@record
class FileSetting:
    """One setting of a file, as text.

    Attributes:
        text: The items of an array are joined by the setting's separator.
        origin: Where it stands, in words.
    """

    text: str
    origin: str


@record
class ConfigFile:
    """What one file states for a project.

    Attributes:
        path: Where it is.
        settings: By the setting's name.
        locked: Names of settings that nothing else may change.
    """

    path: str
    settings: Mapping[str, FileSetting]
    locked: tuple[str, ...] = ()


def read_config_files(
    environment: Mapping[str, str], project: str | None
) -> tuple[list[ConfigFile], list[ConfigFile]]:
    """Return the user's files and the site's files that exist, the most important first.

    Raises:
        SettingsError: A file cannot be read or understood.
    """
    named = environment.get(CONFIG_VARIABLE)
    if named:
        path = os.path.expanduser(named)  # noqa: PTH111 - leaves an unknown user as it is
        origin = f"environment variable {CONFIG_VARIABLE}"
        if not os.path.isabs(path) and path != os.devnull:  # noqa: PTH117 - cheaper
            raise SettingsError(
                f"{origin} names {named!r}: a configuration file needs an absolute path, since "
                "builds run in the folder of the sdist"
            )
        text = _read(path)
        if text is None:
            raise SettingsError(f"{origin} names {path!r}: no file")
        return [parse_config_file(text, path, project, site=True)], []
    return (
        [
            parse_config_file(text, path, project, site=False)
            for path in user_files(environment)
            if (text := _read(path)) is not None
        ],
        [
            parse_config_file(text, path, project, site=True)
            for path in site_files(environment)
            if (text := _read(path)) is not None
        ],
    )


def parse_config_file(text: str, path: str, project: str | None, *, site: bool) -> ConfigFile:
    """Return what a file states for a project.

    Args:
        text: The file's content.
        path: For messages.
        project: The project in question; none if there is none in particular.
        site: Whether it may lock settings.

    Raises:
        SettingsError: The text is no configuration file, or has a key that is unknown.
    """
    from variantwheel_selector.parse.toml_subset import (  # noqa: PLC0415 - files are rare
        TomlSubsetError,
        parse_toml_subset,
    )

    try:
        entries = parse_toml_subset(text)
    except TomlSubsetError as error:
        raise SettingsError(f"{path}: {error}") from error
    general: dict[str, FileSetting] = {}
    special: dict[str, FileSetting] = {}
    locked: tuple[str, ...] = ()
    for entry in entries:
        place = f"{path} line {entry.line}"
        if entry.table == () and entry.key == LOCKED:
            locked = _locked(entry, place, site=site)
            continue
        owner, name = _name(entry, place)
        if owner is None:
            _check_general(name, entry, place)
            general[name] = _setting(name, entry, place)
        else:
            found = _setting(name, entry, place)
            if project is not None and normalize_project(owner) == normalize_project(project):
                special[name] = found
    return ConfigFile(path, general | special, locked)


def _name(entry: TomlEntry, place: str) -> tuple[str | None, str]:
    """Return the project that an entry is about, if it is about one, and the setting's name."""
    table, owner = entry.table, None
    if table[:1] == (_PROJECT,):
        if len(table) == 1:
            raise SettingsError(f"{place}: expected a project's name, as in [project.{entry.key}]")
        owner, table = table[1], table[2:]
    if table not in ((), (_ASSUME,)):
        known = [_ASSUME, _PROJECT]
        raise SettingsError(
            f"{place}: unknown table [{'.'.join(entry.table)}]; known are [assume], [project.NAME] "
            f"and [project.NAME.assume]{suggestion(table[0], known)}"
        )
    if table == (_ASSUME,):
        name = ASSUME_PREFIX + entry.key
        known = [key.removeprefix(ASSUME_PREFIX) for key in BY_NAME if key != entry.key]
        known = [key for key in known if ASSUME_PREFIX + key in BY_NAME]
    else:
        name = entry.key
        known = [key for key in BY_NAME if not key.startswith(ASSUME_PREFIX)]
    if entry.key in known:
        return owner, name
    if name in BY_NAME and name.startswith(ASSUME_PREFIX):
        word = name.removeprefix(ASSUME_PREFIX)
        raise SettingsError(f"{place}: {name!r} is spelt {word!r} in the table [assume]")
    raise SettingsError(
        f"{place}: unknown key {entry.key!r}; known are {', '.join(known)}"
        f"{suggestion(entry.key, known)}"
    )


def _check_general(name: str, entry: TomlEntry, place: str) -> None:
    """Refuse what cannot hold for all projects: labels mean something within one release alone."""
    if BY_NAME[name].per_project:
        raise SettingsError(f"{place}: {name!r} is about one project: write it in [project.NAME]")
    if name not in ("require", "forbid", "only", "prefer"):
        return
    items = entry.value if isinstance(entry.value, tuple) else entry.value.split(",")
    for item in items:
        word = item.partition("::")[0].strip()
        if word not in _GENERAL_WORDS:
            raise SettingsError(
                f"{place}: {word!r} is none of {', '.join(_GENERAL_WORDS)}"
                f"{suggestion(word, _GENERAL_WORDS)}; a label is about one project: write it in "
                "[project.NAME]"
            )


def _setting(name: str, entry: TomlEntry, place: str) -> FileSetting:
    separator = BY_NAME[name].separator
    value = entry.value
    if isinstance(value, tuple):
        if separator is None:
            raise SettingsError(f"{place}: {entry.key!r} takes one value, not an array")
        for item in value:
            if not item or separator in item:
                raise SettingsError(f"{place}: {item!r} is no item of {entry.key!r}")
        value = separator.join(value)
    return FileSetting(value, f"{'.'.join((*entry.table, entry.key))} in {entry_place(place)}")


def entry_place(place: str) -> str:
    """Return the file of a place, without the line."""
    return place.rpartition(" line ")[0]


def _locked(entry: TomlEntry, place: str, *, site: bool) -> tuple[str, ...]:
    if not site:
        raise SettingsError(f"{place}: only a site's file can lock settings")
    if not isinstance(entry.value, tuple):
        raise SettingsError(f"{place}: 'locked' is an array of names of settings")
    for name in entry.value:
        if name not in BY_NAME:
            raise SettingsError(
                f"{place}: unknown setting {name!r}; known are {', '.join(BY_NAME)}"
                f"{suggestion(name, tuple(BY_NAME))}"
            )
    return entry.value


def _read(path: str) -> str | None:
    """Return a file's text, or none if there is no such file."""
    if path == os.devnull:
        return ""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a named pipe would be waited for
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SettingsError(f"cannot read {path}: it is no regular file")
            data = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > _FILE_LIMIT:
        raise SettingsError(f"cannot read {path}: it is larger than {_FILE_LIMIT} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"cannot read {path}: it is not UTF-8") from error
