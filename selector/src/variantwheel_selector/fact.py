"""Facts in three states: known, known to be absent, and unknown with the reason."""

from __future__ import annotations

from variantwheel_selector.record import record
from variantwheel_selector.typing_forms import Generic, TypeVar

T = TypeVar("T")


@record
class Yes(Generic[T]):
    """A fact that is known.

    Attributes:
        value: What is known.
        source: Where it was read, in words.
    """

    value: T
    source: str


@record
class No:
    """The machine has nothing of the kind, or nothing that this process can use."""

    reason: str


@record
class Unknown:
    """It could not be found out; that is not the same as absent."""

    reason: str


Fact = Yes[T] | No | Unknown
