"""Facts in three states: known, known to be absent, and unknown with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Yes(Generic[T]):
    """A fact that is known.

    Attributes:
        value: What is known.
        source: Where it was read, in words.
    """

    value: T
    source: str


@dataclass(frozen=True)
class No:
    """The machine has nothing of the kind, or nothing that this process can use."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """It could not be found out; that is not the same as absent."""

    reason: str


Fact = Yes[T] | No | Unknown
