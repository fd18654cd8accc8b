"""Tables of the environment variables that horovod-variants reads, from its own registry."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horovod._setting_values import Setting

_SOURCES = Path(__file__).resolve().parent.parent / "src"


def variable_tables() -> dict[str, str]:
    """Writes the tables as Markdown.

    Returns:
        Word to table: of the variables that users set, of those that launchers set, and of those
        that have no effect.
    """
    # The package need not be installed: what is imported here is Python alone, without a core.
    sys.path.insert(0, str(_SOURCES))
    try:
        from horovod import _settings  # noqa: PLC0415 - found by the line above
        from horovod._unused_settings import UNUSED  # noqa: PLC0415
        from horovod.runner.variable_flags import FLAGS  # noqa: PLC0415
    finally:
        sys.path.remove(str(_SOURCES))

    flags: dict[str, list[str]] = {}
    for flag in FLAGS:
        flags.setdefault(flag.variable, []).append(f"`{flag.flag}`")
    launchers = {setting.name for setting in _settings.LAUNCHER_SETTINGS}
    users = [setting for setting in _settings.SETTINGS if setting.name not in launchers]
    return {
        "variables": _table(
            ("variable", "value", "by default", "for", "flags of `horovodrun`"),
            (
                (*_described(setting), setting.meaning, ", ".join(flags.get(setting.name, [])))
                for setting in users
            ),
        ),
        "places": _table(
            ("variable", "value", "by default", "for"),
            ((*_described(setting), setting.meaning) for setting in _settings.LAUNCHER_SETTINGS),
        ),
        "unused": _table(
            ("variable", "why it has no effect"),
            ((f"`{unused.setting.name}`", unused.reason) for unused in UNUSED),
        ),
    }


def _described(setting: Setting[Any]) -> tuple[str, str, str]:
    from horovod._setting_values import SWITCH  # noqa: PLC0415 - as above

    value = "a switch" if setting.accepted == SWITCH else setting.accepted
    return f"`{setting.name}`", value, _default(setting.default)


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value in ("", b"", -1):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("  |", " |")
