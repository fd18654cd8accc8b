"""Writing YAML: the plain subset that CI systems need, always the same text for the same data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

YamlValue = str | int | bool | Sequence["YamlValue"] | Mapping[str, "YamlValue"]

# Text that needs no quotes, and ends with neither a blank nor a colon.
_PLAIN = re.compile(r"(?=[A-Za-z_./$])(?:[!-\"$-9;-~]|:(?! |$)|[ ](?! *$|#))+")
# What a reader of YAML takes for something else than text (YAML 1.1 reads the words of truth so).
_NOT_TEXT = re.compile(r"(?i:true|false|yes|no|on|off|null|~)|\.(inf|nan)|[-+.]?[0-9].*")
_KEY = re.compile(r"[A-Za-z_.][A-Za-z0-9_.-]*(?::[A-Za-z0-9_.-]+)*")


def render_yaml(document: Mapping[str, YamlValue]) -> str:
    r"""Write a document.

    >>> print(render_yaml({"a": {"b": ["x", {"c": "1.0", "d": True}]}, "run": "x\ny\n"}), end="")
    a:
      b:
        - x
        - c: "1.0"
          d: true
    run: |
      x
      y
    """
    return "".join(f"{line}\n" if line else "\n" for line in _members(document))


def _members(table: Mapping[str, YamlValue]) -> Iterator[str]:
    for key, value in table.items():
        name = key if _KEY.fullmatch(key) else json.dumps(key)
        if isinstance(value, str) and "\n" in value:
            yield f"{name}: |" if value.endswith("\n") else f"{name}: |-"
            yield from (f"  {line}".rstrip() for line in value.splitlines())
        elif isinstance(value, (str, bool, int)) or not value:
            yield f"{name}: {_scalar(value)}"
        else:
            yield f"{name}:"
            lines = _members(value) if isinstance(value, Mapping) else _elements(value)
            yield from (f"  {line}" for line in lines)


def _elements(values: Sequence[YamlValue]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping) and value:
            first, *rest = _members(value)
            yield f"- {first}"
            yield from (f"  {line}".rstrip() for line in rest)
        elif isinstance(value, (str, bool, int)) or not value:
            yield f"- {_scalar(value)}"
        else:
            raise TypeError(f"a list directly inside of a list: {value!r}")


def _scalar(value: YamlValue) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)
