"""The strict part of TOML that configuration files are written in.

Tables, strings and arrays of strings, which is all that settings need. Python 3.10 has no
`tomllib`, and one parser on every Python reads a file the same way everywhere; every text that is
accepted here means the same to a full TOML parser. Numbers and dates are refused on purpose: as a
TOML number, CUDA 12.10 would be 12.1.
"""

from __future__ import annotations

import re

from variantwheel_selector.record import record

Value = str | tuple[str, ...]

_BARE = r"[A-Za-z0-9_-]{1,128}"
_STRING = re.compile(
    r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\["\\])*)"|\'([^\'\x00-\x08\x0a-\x1f\x7f]*)\''
)
_TABLE_PART = re.compile(rf"\s*(?:({_BARE})|{_STRING.pattern})\s*")
_KEY = re.compile(rf"({_BARE})[ \t]*=[ \t]*")
_BLANK = re.compile(r"[ \t]*(?:#[^\x00-\x08\x0a-\x1f\x7f]*)?")
_MOST_LINES = 10_000


class TomlSubsetError(ValueError):
    """A text that is not of this form; says what was expected, and in which line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")


@record
class TomlEntry:
    """One `key = value`.

    Attributes:
        table: Names of the tables that it stands in, outermost first.
        key: Its name.
        value: A string, or the strings of an array.
        line: Where it stands, from 1.
    """

    table: tuple[str, ...]
    key: str
    value: Value
    line: int


def parse_toml_subset(text: str) -> list[TomlEntry]:
    """Return the entries in their order.

    The text looks like this::

        # for all projects
        forbid = ["amd", "cpu::v4"]

        [assume]
        cuda = "12.8"

        [project.horovod-variants]
        variant = "cu12"

    Raises:
        TomlSubsetError: The text has another form.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) > _MOST_LINES:
        raise TomlSubsetError(_MOST_LINES, "there are too many lines")
    entries: list[TomlEntry] = []
    table: tuple[str, ...] = ()
    tables: set[tuple[str, ...]] = set()
    keys: set[tuple[str, ...]] = set()
    number = 0
    while number < len(lines):
        line = lines[number].strip(" \t")
        number += 1
        if _BLANK.fullmatch(line):
            continue
        if line.startswith("["):
            table = _table(line, number)
            if table in tables:
                raise TomlSubsetError(number, f"the table [{'.'.join(table)}] stands here again")
            tables.add(table)
            _check_nesting(table, keys, number)
            continue
        match = _KEY.match(line)
        if match is None:
            raise TomlSubsetError(number, "expected 'key = \"value\"', '[table]' or a comment")
        start = number
        value, number = _value(line[match.end() :], lines, number)
        path = (*table, match[1])
        if path in keys or any(known[: len(path)] == path for known in tables):
            raise TomlSubsetError(start, f"{match[1]!r} stands here twice")
        keys.add(path)
        entries.append(TomlEntry(table, match[1], value, start))
    return entries


def _check_nesting(table: tuple[str, ...], keys: set[tuple[str, ...]], number: int) -> None:
    for length in range(1, len(table) + 1):
        if table[:length] in keys:
            raise TomlSubsetError(
                number, f"{'.'.join(table[:length])!r} is no table, it has a value"
            )


def _table(line: str, number: int) -> tuple[str, ...]:
    parts: list[str] = []
    position = 1
    while True:
        match = _TABLE_PART.match(line, position)
        if match is None:
            raise TomlSubsetError(number, "expected a table's name such as [assume]")
        parts.append(match[1] if match[1] is not None else _unescaped(match[2], match[3]))
        position = match.end()
        if line[position : position + 1] != ".":
            break
        position += 1
    if line[position : position + 1] != "]" or not _BLANK.fullmatch(line[position + 1 :]):
        raise TomlSubsetError(number, "expected ']' at the end of the table's name")
    return tuple(parts)


def _value(rest: str, lines: list[str], number: int) -> tuple[Value, int]:
    if rest.startswith("["):
        return _array(rest[1:], lines, number)
    text, rest = _string(rest, number)
    if not _BLANK.fullmatch(rest):
        raise TomlSubsetError(number, "expected nothing after the value")
    return text, number


def _array(rest: str, lines: list[str], number: int) -> tuple[tuple[str, ...], int]:
    items: list[str] = []
    after_item = False
    while True:
        rest = rest.lstrip(" \t")
        if _BLANK.fullmatch(rest):
            if number == len(lines):
                raise TomlSubsetError(number, "the array has no ']' at its end")
            rest = lines[number]
            number += 1
        elif rest.startswith("]"):
            if not _BLANK.fullmatch(rest[1:]):
                raise TomlSubsetError(number, "expected nothing after the array")
            return tuple(items), number
        elif after_item:
            if not rest.startswith(","):
                raise TomlSubsetError(number, "expected ',' or ']' in the array")
            rest, after_item = rest[1:], False
        else:
            item, rest = _string(rest, number)
            items.append(item)
            after_item = True


def _string(text: str, number: int) -> tuple[str, str]:
    match = _STRING.match(text)
    if match is None or text.startswith(('"""', "'''")):
        word = re.match(r"[^\s,#\]]+", text)
        # What holds an '@' may be a URL with a password.
        advice = f': write "{word[0]}"' if word and not set(word[0]) & set("\"'\\[{@") else ""
        raise TomlSubsetError(number, f"expected a string in quotes{advice}")
    return _unescaped(match[1], match[2]), text[match.end() :]


def _unescaped(basic: str | None, literal: str | None) -> str:
    return re.sub(r"\\(.)", r"\1", basic) if basic is not None else literal or ""
