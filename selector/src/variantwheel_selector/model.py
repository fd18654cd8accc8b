"""The vocabulary of PEP 825: variant properties, variant labels and variants."""

from __future__ import annotations

from collections.abc import Iterable

from variantwheel_selector.errors import InvalidNameError
from variantwheel_selector.record import field, record

NULL_LABEL = "null"
"""The reserved label of the variant without properties, which every machine supports."""

NAMESPACE_PATTERN = r"[a-z0-9_]+"
FEATURE_PATTERN = r"[a-z0-9_]+"
VALUE_PATTERN = r"[a-z0-9_.]+"
LABEL_PATTERN = r"[0-9a-z_.]{1,16}"
"""A label; drafts of PEP 825 limited its length, and short ones are safe everywhere."""


# Regular expressions would be compiled in every installation, for a few short texts.
_WORD_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_CHARACTERS = _WORD_CHARACTERS | {"."}


def is_label(text: str) -> bool:
    """Tell whether a text follows the grammar of variant labels, `LABEL_PATTERN`."""
    return 0 < len(text) <= 16 and _CHARACTERS.issuperset(text)


@record
class VariantProperty:
    """A property `namespace :: feature :: value` that a wheel needs or a machine supports."""

    namespace: str
    feature: str
    value: str

    def __post_init__(self) -> None:
        for part, pattern, text in (
            ("namespace", NAMESPACE_PATTERN, self.namespace),
            ("feature", FEATURE_PATTERN, self.feature),
            ("value", VALUE_PATTERN, self.value),
        ):
            characters = _CHARACTERS if part == "value" else _WORD_CHARACTERS
            if not text or not characters.issuperset(text):
                raise InvalidNameError(
                    f"invalid {part} {text!r} in a variant property: must match {pattern}"
                )

    @classmethod
    def from_str(cls, text: str) -> VariantProperty:
        """Read `namespace :: feature :: value`; blanks around the parts do not count."""
        parts = [part.strip() for part in text.split("::")]
        if len(parts) != 3:
            raise InvalidNameError(
                f"invalid variant property {text!r}: expected 'namespace :: feature :: value'"
            )
        return cls(*parts)

    def to_str(self) -> str:
        """Write the property the way PEP 825 does."""
        return f"{self.namespace} :: {self.feature} :: {self.value}"

    def __str__(self) -> str:
        return self.to_str()

    def __lt__(self, other: VariantProperty) -> bool:
        mine = (self.namespace, self.feature, self.value)
        return mine < (other.namespace, other.feature, other.value)


def check_label(label: str) -> str:
    """Return `label` if it follows the grammar of variant labels.

    Raises:
        InvalidNameError: The label does not.
    """
    if not is_label(label):
        raise InvalidNameError(f"invalid variant label {label!r}: must match {LABEL_PATTERN}")
    return label


@record
class Variant:
    """A label and the set of properties which it stands for throughout a release.

    Attributes:
        label: The last part of the wheels' file names.
        properties: Sorted, without duplicates.
        needs: The items of `features()`.
    """

    label: str
    properties: tuple[VariantProperty, ...] = ()
    needs: tuple[tuple[tuple[str, str], tuple[str, ...]], ...] = field(init=False)

    def __post_init__(self) -> None:
        check_label(self.label)
        object.__setattr__(self, "properties", tuple(sorted(set(self.properties))))
        values: dict[tuple[str, str], tuple[str, ...]] = {}
        for item in self.properties:
            key = (item.namespace, item.feature)
            values[key] = (*values.get(key, ()), item.value)
        object.__setattr__(self, "needs", tuple(values.items()))
        if (self.label == NULL_LABEL) != (not self.properties):
            raise InvalidNameError(
                f"variant {self.label!r} has {len(self.properties)} properties: "
                f"the label {NULL_LABEL!r} is reserved for the variant that has none"
            )

    @classmethod
    def from_strings(cls, label: str, properties: Iterable[str]) -> Variant:
        """Make a variant from properties written as text."""
        return cls(label, tuple(VariantProperty.from_str(text) for text in properties))

    def features(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Return the values by (namespace, feature); any one of a feature's values suffices."""
        return dict(self.needs)
