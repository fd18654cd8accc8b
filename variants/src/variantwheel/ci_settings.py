"""What a project tells the generators of CI configurations: `[tool.variantwheel.ci]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from variantwheel.definition_keys import CI_KEYS, key_names
from variantwheel.toml_table import TomlTable

OLDEST_MINOR = 10
"""Of CPython 3, for the toolkit and for the selector, which every installation runs."""

_INTERPRETER = re.compile(r"cp3([0-9]+)t?")


@dataclass(frozen=True)
class CiSettings:
    """How the jobs get the toolkit and what they build with.

    Attributes:
        toolkit: What pip installs to get it.
        interpreters: Pythons that wheels are built with, `cp312`.
        test_interpreters: Pythons that the wheels are tried with.
        extra_wheels: Folders of projects whose wheels are released beside.
        declared: Those of `interpreters` that the project itself names.
    """

    toolkit: tuple[str, ...] = ("variantwheel",)
    interpreters: tuple[str, ...] = ("cp312",)
    test_interpreters: tuple[str, ...] = ("cp312",)
    extra_wheels: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    def untried(self) -> list[str]:
        """Name the Pythons that build one wheel among several and do not try it.

        A project that builds with a single one makes a wheel for others too, or its jobs fail.
        """
        if len(self.interpreters) == 1:
            return []
        return [name for name in self.interpreters if name not in self.test_interpreters]


def read_ci_settings(table: TomlTable) -> CiSettings:
    """Read the table.

    Raises:
        DefinitionError: A key or an interpreter is wrong.
    """
    table.allow_only(key_names(CI_KEYS))
    interpreters = _interpreters(table, "interpreters", CiSettings.interpreters)
    return CiSettings(
        toolkit=table.strings("toolkit", CiSettings.toolkit),
        interpreters=interpreters,
        test_interpreters=_interpreters(table, "test-interpreters", interpreters),
        extra_wheels=table.strings("extra-wheels", ()),
        declared=interpreters if "interpreters" in table.members else (),
    )


def python_version(interpreter: str) -> str:
    """Spell an interpreter the way that CI systems do.

    >>> python_version("cp314t")
    '3.14t'
    """
    return f"3.{interpreter.removeprefix('cp3')}"


def _interpreters(table: TomlTable, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = table.strings(key, default)
    for position, name in enumerate(found):
        found_name = _INTERPRETER.fullmatch(name)
        if found_name is None:
            table.fail(
                f"{key}[{position}]", f"{name!r} is no interpreter such as 'cp312', 'cp314t'"
            )
        if int(found_name[1]) < OLDEST_MINOR:
            table.fail(
                f"{key}[{position}]",
                f"{name!r} is older than CPython 3.{OLDEST_MINOR}, which the toolkit in the jobs "
                "and the selector in the sdist need at least",
            )
    if not found:
        table.fail(key, "names no interpreter; delete the key or name one")
    return found
