"""Where each key of a TOML document stands, which `tomllib` does not tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"[ \t]*")
# Blanks, line ends and comments: what may stand between statements and inside of arrays.
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}#\r\n]+")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)


def key_lines(text: str) -> Mapping[str, int]:
    r"""Find the lines of a document's keys.

    Args:
        text: A valid document; of any other one the lines up to the fault are found.

    Returns:
        Line numbers by dotted key. The elements of arrays have keys such as `platforms[0]`;
        quotes around keys are left out.

    >>> dict(key_lines('a = 1\n[[b]]\nc.d = [\n  2,\n]\n'))
    {'a': 1, 'b': 2, 'b[0]': 2, 'b[0].c': 3, 'b[0].c.d': 3, 'b[0].c.d[0]': 4}
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self._text = text
        self._at = 0
        self._counts: dict[str, int] = {}

    def document(self) -> None:
        table = ""
        while self._skip(_SPACE) < len(self._text):
            before = self._at
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._member(table)
            if self._at == before:
                return

    def _header(self) -> str:
        several = self._text.startswith("[[", self._at)
        line = self._line()
        self._at += 2 if several else 1
        place = ""
        parts = self._key()
        for position, part in enumerate(parts):
            place = self._note(place, part, line)
            last = position == len(parts) - 1
            if several and last:
                self._counts[place] = self._counts.get(place, -1) + 1
            if place in self._counts:
                place = f"{place}[{self._counts[place]}]"
                self.lines.setdefault(place, line)
        self._skip(_BLANK)
        self._at += 2 if several else 1
        return place

    def _member(self, table: str) -> None:
        line = self._line()
        place = table
        for part in self._key():
            place = self._note(place, part, line)
        if self._text.startswith("=", self._skip(_BLANK)):
            self._at += 1
            self._skip(_BLANK)
            self._value(place)

    def _value(self, place: str) -> None:
        if self._text.startswith("[", self._at):
            self._elements(place)
        elif self._text.startswith("{", self._at):
            self._sequence("}", lambda _: self._member(place))
        elif self._string() is None:
            self._skip(_SCALAR)

    def _elements(self, place: str) -> None:
        def element(position: int) -> None:
            self.lines.setdefault(f"{place}[{position}]", self._line())
            self._value(f"{place}[{position}]")

        self._sequence("]", element)

    def _sequence(self, end: str, read: Callable[[int], None]) -> None:
        self._at += 1
        position = 0
        while self._skip(_SPACE) < len(self._text):
            before = self._at
            if self._text.startswith(end, self._at):
                self._at += 1
                return
            read(position)
            position += 1
            if self._text.startswith(",", self._skip(_SPACE)):
                self._at += 1
            if self._at == before:
                return

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._skip(_BLANK)
            quoted = self._string()
            if quoted is not None:
                parts.append(quoted)
            elif bare := _BARE_KEY.match(self._text, self._at):
                parts.append(bare[0])
                self._at = bare.end()
            if not self._text.startswith(".", self._skip(_BLANK)):
                return parts
            self._at += 1

    def _string(self) -> str | None:
        for pattern in _STRINGS:
            found = pattern.match(self._text, self._at)
            if found:
                self._at = found.end()
                return found[0].strip("\"'")
        return None

    def _note(self, table: str, key: str, line: int) -> str:
        place = f"{table}.{key}" if table else key
        self.lines.setdefault(place, line)
        return place

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return self._at

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
