"""Strict reading of JSON documents: every fault names its place in the document."""

from __future__ import annotations

import json
import re

from variantwheel_selector.errors import SelectorError
from variantwheel_selector.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


@record
class JsonNode:
    """One value inside a JSON document, with its place and the error class of its faults.

    Attributes:
        value: What `json` read.
        place: Where the value stands, for example `variants.json: variants.cu12`.
        fault: The class that is raised when the value is not of the shape asked for.
    """

    value: object
    place: str
    fault: type[SelectorError]

    def fail(self, problem: str) -> NoReturn:
        """Raise this document's error class for this place."""
        raise self.fault(f"{self.place}: {problem}")

    def _fail_type(self, wanted: str) -> NoReturn:
        self.fail(f"expected {wanted}, found {_json_type(self.value)}")

    def members(self) -> dict[str, JsonNode]:
        """Return the members of an object with arbitrary keys."""
        if not isinstance(self.value, dict):
            self._fail_type("an object")
        return {
            key: JsonNode(member, f"{self.place}.{key}", self.fault)
            for key, member in self.value.items()
        }

    def object(
        self,
        required: tuple[str, ...],
        optional: tuple[str, ...] = (),
        *,
        ignore_unknown: bool = False,
    ) -> dict[str, JsonNode]:
        """Return the members of an object with known keys.

        Args:
            required: Keys that must be present.
            optional: Keys that may be present.
            ignore_unknown: Whether other keys are left out of the result instead of refused.
        """
        members = self.members()
        missing = [key for key in required if key not in members]
        if missing:
            self.fail(f"key {missing[0]!r} is missing")
        known = {*required, *optional}
        unknown = [key for key in members if key not in known]
        if unknown and not ignore_unknown:
            self.fail(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
        return {key: member for key, member in members.items() if key in known}

    def elements(self) -> list[JsonNode]:
        """Return the elements of an array."""
        if not isinstance(self.value, list):
            self._fail_type("an array")
        return [
            JsonNode(element, f"{self.place}[{position}]", self.fault)
            for position, element in enumerate(self.value)
        ]

    def string(self, pattern: str | None = None) -> str:
        """Return a string, which has to match `pattern` as a whole."""
        if not isinstance(self.value, str):
            self._fail_type("a string")
        if pattern is not None and not re.fullmatch(pattern, self.value):
            self.fail(f"{self.value!r} does not match {pattern}")
        return self.value

    def strings(self, pattern: str | None = None) -> tuple[str, ...]:
        """Return an array of strings that differ from each other."""
        found = tuple(element.string(pattern) for element in self.elements())
        if len(set(found)) != len(found):
            self.fail("holds the same string twice")
        return found

    def integer(self, minimum: int = 0) -> int:
        """Return an integer that is at least `minimum`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self._fail_type("an integer")
        if self.value < minimum:
            self.fail(f"{self.value} is less than {minimum}")
        return self.value

    def boolean(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            self._fail_type("true or false")
        return self.value

    def schema_number(self, newest: int) -> None:
        """Refuse a document whose `schema` member is newer than what this code reads, or none."""
        number = self.integer(minimum=1)
        if number > newest:
            known = "1" if newest == 1 else f"1 to {newest}"
            self.fail(f"schema {number} is not known here, only {known}; a newer selector reads it")


def parse_json(text: str | bytes, place: str, fault: type[SelectorError]) -> JsonNode:
    """Read a JSON document, refusing what JSON readers disagree about.

    Args:
        text: The document; bytes have to be UTF-8.
        place: The name of the document for messages.
        fault: The error class to raise.

    Returns:
        The root of the document.
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise fault(f"{place}: an object holds the same key twice")
        return members

    def refuse(constant: str) -> NoReturn:
        raise fault(f"{place}: {constant} is not JSON")

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
        # Half of a surrogate pair, which JSON can spell, could be written nowhere later on.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        if isinstance(error, SelectorError):
            raise
        raise fault(f"{place}: not valid JSON: {error}") from error
    return JsonNode(value, place, fault)


def _json_type(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", type(None): "null"}
    return names.get(type(value), repr(value))
