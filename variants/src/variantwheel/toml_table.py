"""Strict reading of TOML tables: a fault names file, line and key, and what would be right."""

from __future__ import annotations

import difflib
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from variantwheel.errors import DefinitionError
from variantwheel.toml_lines import key_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    # On a newer Python mypy may find no tomli; on 3.10 it is a requirement.
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]


@dataclass(frozen=True)
class TomlTable:
    """One table of a TOML file.

    Attributes:
        file: The file, as messages name it.
        key: The table's dotted key; empty for the whole document.
        members: What `tomllib` read.
        lines: Line numbers by dotted key.
    """

    file: Path
    key: str
    members: Mapping[str, object]
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise a fault of the member `key`."""
        raise self.fault(key, problem)

    def fault(self, key: str, problem: str) -> DefinitionError:
        """Return a fault of the member `key`; one that is missing is told at its table's line."""
        dotted = self._dotted(key)
        place = dotted
        while place and place not in self.lines:
            place = place.rpartition(".")[0]
        line = f":{self.lines[place]}" if place else ""
        return DefinitionError(f"{self.file}{line}: {dotted}: {problem}")

    def allow_only(self, known: Iterable[str]) -> None:
        """Refuse keys other than the known ones."""
        names = tuple(known)
        for key in self.members:
            if key not in names:
                self.fail(key, f"unknown key; {suggest(key, names)}")

    def string(self, key: str, default: str | None = None) -> str:
        """Return a string that is not empty, or the default for a missing key."""
        value = self._member(key, default)
        if not isinstance(value, str) or not value:
            self.fail(key, f"expected a string that is not empty, found {value!r}")
        return value

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return an array of strings that differ from each other."""
        value = self._strings(key, default)
        if len(set(value)) != len(value):
            self.fail(key, f"holds the same string twice: {list(value)!r}")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """Return an array of strings, such as a command, that may repeat; empty if missing."""
        return self._strings(key, ())

    def string_map(self, key: str) -> dict[str, str]:
        """Return a table of strings; a missing one is empty."""
        table = self.table(key)
        return {name: table.string(name) for name in table.members}

    def positive_integer(self, key: str) -> int | None:
        """Return an integer above zero, or none for a missing key."""
        value = self.members.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.fail(key, f"expected an integer above zero, found {value!r}")
        return value

    def boolean(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.members.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"expected true or false, found {value!r}")
        return value

    def table(self, key: str) -> TomlTable:
        """Return a table inside this one; a missing one is empty."""
        value = self.members.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, f"expected a table, found {value!r}")
        return TomlTable(self.file, self._dotted(key), value, self.lines)

    def tables(self, key: str) -> tuple[TomlTable, ...]:
        """Return an array of tables, which must not be empty."""
        value = self._member(key, None)
        if not isinstance(value, list) or not value or not all(isinstance(t, dict) for t in value):
            self.fail(key, f"expected one [[{self._dotted(key)}]] at least, found {value!r}")
        dotted = self._dotted(key)
        return tuple(
            TomlTable(self.file, f"{dotted}[{position}]", table, self.lines)
            for position, table in enumerate(value)
        )

    def _strings(self, key: str, default: tuple[str, ...] | None) -> tuple[str, ...]:
        value = self._member(key, default)
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(item, str) and item for item in value
        ):
            self.fail(key, f"expected an array of strings, found {value!r}")
        return tuple(value)

    def _member(self, key: str, default: object) -> object:
        value = self.members.get(key, default)
        if value is None:
            self.fail(key, "missing key")
        return value

    def _dotted(self, key: str) -> str:
        return f"{self.key}.{key}" if self.key else key


def read_toml(file: Path) -> TomlTable:
    """Read a file.

    Raises:
        DefinitionError: The file cannot be read, or is no TOML; with tomllib's line and column.
    """
    try:
        # A pipe would keep whoever reads it waiting for somebody who writes.
        if stat.S_ISFIFO(file.stat().st_mode):
            raise DefinitionError(f"{file}: a named pipe; put a file in its place, or remove it")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DefinitionError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{file}: not UTF-8: {error}") from error
    return parse_toml(text, file)


def parse_toml(text: str, file: Path) -> TomlTable:
    """Read what is, or will be, the text of a file.

    Raises:
        DefinitionError: It is no TOML; with tomllib's line and column.
    """
    if text.startswith("\ufeff"):
        raise DefinitionError(
            f"{file}: begins with a byte order mark (BOM), which TOML does not have; save the file "
            "as UTF-8 without one"
        )
    try:
        return TomlTable(file, "", tomllib.loads(text), key_lines(text))
    except RecursionError as error:
        raise DefinitionError(
            f"{file}: arrays or tables lie in each other too deeply to be read; no key needs that"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"{file}: not valid TOML: {error}") from error


def suggest(word: str, known: Iterable[str]) -> str:
    """Word what was probably meant by an unknown word: the closest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(names) or 'none'}"
