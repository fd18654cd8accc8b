"""Tables of the environment variables that horovod-variants reads, from its own registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from horovod import _settings
from horovod._setting_values import SWITCH, Setting
from horovod._unused_settings import UNUSED
from horovod.runner.variable_flags import FLAGS


def variable_tables() -> dict[str, str]:
    """Writes the tables as Markdown.

    Returns:
        Word to table: of the variables that users set, of those that launchers set, and of those
        that have no effect.
    """
    flags: dict[str, list[str]] = {}
    for flag in FLAGS:
        flags.setdefault(flag.variable, []).append(f"`{flag.flag}`")
    launchers = _settings.LAUNCHER_SETTINGS
    users = [setting for setting in _settings.SETTINGS if setting not in launchers]
    return {
        "variables": _table(
            ("variable", "value", "by default", "for", "flags of `horovodrun`"),
            ((*_described(each), ", ".join(flags.get(each.name, []))) for each in users),
        ),
        "places": _table(("variable", "value", "by default", "for"), map(_described, launchers)),
        "unused": _table(
            ("variable", "why it has no effect"),
            ((f"`{unused.setting.name}`", unused.reason) for unused in UNUSED),
        ),
    }


def _described(setting: Setting[Any]) -> tuple[str, ...]:
    value = "a switch" if setting.accepted == SWITCH else setting.accepted
    return f"`{setting.name}`", value, _shown(setting.default), setting.meaning


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    if default in ("", b"", -1):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("  |", " |")
