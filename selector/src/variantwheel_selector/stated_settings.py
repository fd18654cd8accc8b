"""Reads the user's settings from all places where they are stated, and joins them.

For each setting the first of these places that has it counts: the environment, config settings
(`-C NAME=VALUE`), the user's file, the site's file, other tools' variables that mean the same.
Facts of a machine profile come between config settings and files, but for those that a file locks.
Nothing is ignored: an unknown name or value is an error, and what does not count although it is
stated is noted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from variantwheel_selector import setting_keys as keys
from variantwheel_selector.config_paths import CONFIG_VARIABLE
from variantwheel_selector.errors import SettingsError
from variantwheel_selector.setting_keys import (
    ASSUME_PREFIX,
    BY_NAME,
    ENVIRONMENT_PREFIX,
    KEYS,
    SOURCE_BUILD,
    VARIANT,
    Alias,
    Key,
)
from variantwheel_selector.settings import ConfigSettings, Setting, Settings
from variantwheel_selector.settings_file import ConfigFile, read_config_files
from variantwheel_selector.suggestion import closest, suggestion
from variantwheel_selector.typing_forms import TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from variantwheel_selector.profile import Profile

T = TypeVar("T")

_ENVIRONMENT, _CONFIG, _USER, _SITE, _ALIAS = range(5)
_LIKELY_MISSPELT = 0.75

_NO_SETTINGS = (CONFIG_VARIABLE, "VARIANTWHEEL_VENDOR_PACKAGING")
"""The second one is for builds of this selector's own wheel; it may be exported for them."""


def join_all(
    config_settings: ConfigSettings | None, environment: Mapping[str, str], project: str | None
) -> Settings:
    """Read configuration files and profiles, and join them with all else; see `read_settings`."""
    user, site = read_config_files(environment, project)
    settings = merge_settings(config_settings, environment, user, site)
    paths = settings.get(keys.PROFILE)
    if paths is None:
        return settings
    from variantwheel_selector.profile import read_profiles  # noqa: PLC0415 - rarely needed

    profiles = read_profiles(paths, settings.origin(keys.PROFILE))
    return _freeze(settings, profiles, {name for file in (*user, *site) for name in file.locked})


def merge_settings(
    config_settings: ConfigSettings | None,
    environment: Mapping[str, str],
    user: Sequence[ConfigFile],
    site: Sequence[ConfigFile],
) -> Settings:
    """Join what all places state, without reading anything; profiles are not looked at."""
    layers: list[dict[str, Setting[object]]] = [_from_environment(environment)]
    from_config, others = _from_config_settings(config_settings or {})
    layers.append(from_config)
    layers += [_from_file(file, _USER) for file in user]
    layers += [_from_file(file, _SITE) for file in site]
    stated: dict[str, Setting[object]] = {}
    for layer in layers:
        stated = layer | stated
    files = [*user, *site]
    _check_locked(layers, files)
    locked = {name: file.path for file in reversed(files) for name in file.locked}
    notes: dict[str, str] = {}
    for key in KEYS:
        for alias in key.aliases:
            _take_alias(key, alias, environment, stated, notes, locked)
    ordered = {key.name: stated[key.name] for key in KEYS if key.name in stated}
    settings = Settings(ordered, others, notes)
    _check_together(settings)
    return settings


def _from_environment(environment: Mapping[str, str]) -> dict[str, Setting[object]]:
    variables = {key.variable: key for key in KEYS}
    found: dict[str, Setting[object]] = {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _NO_SETTINGS:
            continue
        if variable not in variables:
            raise _unknown("environment variable", variable, [*variables, CONFIG_VARIABLE])
        key, text = variables[variable], environment[variable]
        # An empty variable is how shells and CI systems say that it is not set.
        if text or key.empty_is_value:
            found[key.name] = _read(key, text, f"environment variable {variable}", _ENVIRONMENT)
    return found


def _from_config_settings(
    config_settings: ConfigSettings,
) -> tuple[dict[str, Setting[object]], dict[str, object]]:
    found: dict[str, Setting[object]] = {}
    others: dict[str, object] = {}
    for name, value in config_settings.items():
        key = BY_NAME.get(name)
        if key is None:
            others[name] = value
            continue
        text = value
        if isinstance(value, list) and key.separator and all(isinstance(v, str) for v in value):
            text = key.separator.join(value)
        if not isinstance(text, str):
            raise SettingsError(f"config setting {name!r} is given more than once: {value!r}")
        found[name] = _read(key, text, f"config setting {name!r}", _CONFIG)
    return found, others


def _from_file(file: ConfigFile, place: int) -> dict[str, Setting[object]]:
    return {
        name: _read(BY_NAME[name], item.text, item.origin, place)
        for name, item in file.settings.items()
    }


def _read(key: Key[T], text: str, origin: str, place: int) -> Setting[T]:
    text = text.strip()
    value = key.read(text) if text else None
    if value is None and (text or not key.empty_is_value):
        none = ", or nothing for none" if key.empty_is_value else ""
        raise SettingsError(
            f"{origin} is {key.shown(text)[:100]!r}; accepted is {key.accepted}{none}"
            f"{suggestion(text, key.choices)}"
        )
    return Setting(value, key.shown(text), origin, place)


def _take_alias(
    key: Key[T],
    alias: Alias[T],
    environment: Mapping[str, str],
    stated: dict[str, Setting[object]],
    notes: dict[str, str],
    locked: Mapping[str, str],
) -> None:
    """Take another tool's variable if nothing else is stated, or note that it is passed over."""
    text = environment.get(alias.variable)
    if text is None or (not text.strip() and not alias.empty_is_value):
        return
    text = text.strip()
    value = alias.read(text) if text else None
    why = _why_passed_over(key, stated, locked)
    if why:
        # What does not count need not be understood: the other tool may accept more.
        shown = repr(text[:100]) if text and value is None else text or "none"
        notes[alias.variable] = f"{shown} (passed over: {why})"
        return
    if value is None and text:
        if re.fullmatch(alias.passed_over, text):
            notes[alias.variable] = f"{text} (passed over: not {alias.accepted})"
            return
        none = ", or nothing for none" if alias.empty_is_value else ""
        raise SettingsError(
            f"environment variable {alias.variable} is {text[:100]!r}; "
            f"accepted is {alias.accepted}{none}"
        )
    origin = f"environment variable {alias.variable}, taken for {key.variable}"
    stated[key.name] = Setting(value, text, origin, _ALIAS)


def _why_passed_over(
    key: Key[T], stated: Mapping[str, Setting[object]], locked: Mapping[str, str]
) -> str:
    """Return why other tools' variables do not count for a setting, or nothing."""
    if key.name in locked:
        return f"{key.name} is locked by {locked[key.name]}"
    if key.name in stated:
        return f"{key.name} is stated"
    if key.name.startswith(ASSUME_PREFIX) and keys.PROFILE.name in stated:
        return "the profile has this fact"
    return ""


def _check_locked(
    layers: Sequence[Mapping[str, Setting[object]]], files: Sequence[ConfigFile]
) -> None:
    for file in files:
        for name in file.locked:
            locked = file.settings.get(name)
            for layer in layers:
                found = layer.get(name)
                if found is None or (locked is not None and found.origin == locked.origin):
                    continue
                if locked is None or found.value != _read(BY_NAME[name], locked.text, "", 0).value:
                    value = "at its default"
                    if locked is not None:
                        value = f"as {BY_NAME[name].shown(locked.text)!r}"
                    raise SettingsError(
                        f"{found.origin} is {found.text!r}, but {file.path} locks {name!r} {value}"
                    )


def _check_together(settings: Settings) -> None:
    """Refuse what contradicts itself, and names that may be misspelt settings."""
    for name in settings.for_source:
        if settings.source_build == "never" or closest(name, BY_NAME, _LIKELY_MISSPELT):
            raise _unknown("config setting", name, tuple(BY_NAME))
    if settings.variant is not None and settings.source_build == "force":
        raise SettingsError(
            f"{settings.origin(VARIANT)} and {settings.origin(SOURCE_BUILD)} contradict each "
            "other: a build from source is no variant"
        )


def _freeze(settings: Settings, profiles: tuple[Profile, ...], locked: Collection[str]) -> Settings:
    """Put the facts of profiles before those that files and other tools' variables state.

    Facts that a file locks stay: a profile changes them as little as anything else does.
    """
    late = {
        name: found
        for name, found in settings.stated.items()
        if name.startswith(ASSUME_PREFIX) and found.place > _CONFIG and name not in locked
    }
    kept = {name: found for name, found in settings.stated.items() if name not in late}
    notes = {
        name: f"{found.text or 'none'} ({found.origin}; passed over: the profile has this fact)"
        for name, found in late.items()
    }
    return Settings(kept, settings.for_source, {**settings.notes, **notes}, profiles)


def _unknown(kind: str, name: str, known: Sequence[str]) -> SettingsError:
    return SettingsError(
        f"unknown {kind} {name!r}{suggestion(name, known)}; known are {', '.join(known)}"
    )
