"""One environment variable: how its text becomes a value, and what is said when it cannot."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_RANKS = 1 << 20  # of a job, as the core has it


class SettingError(ValueError):
    """An environment variable holds a value that is not accepted."""


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One environment variable.

    Attributes:
        name: of the variable.
        parse: turns the text into a value; raises ValueError when it cannot.
        accepted: what values there are, in words, for the error message.
        default: taken when the variable is unset or empty.
        meaning: what it is for.
    """

    name: str
    parse: Callable[[str], T]
    accepted: str
    default: T
    meaning: str

    def read(self, environment: Mapping[str, str]) -> T:
        """The value in an environment.

        Raises:
            SettingError: the text is not accepted; the message lists what is.
        """
        text = environment.get(self.name, "").strip()
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            shown = "<not shown>" if self.name.endswith("SECRET_KEY") else repr(text)
            raise SettingError(
                f"{self.name}={shown} is not accepted: it must be {self.accepted}"
            ) from None


def count(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 63:
        raise ValueError
    return value


def ranks(text: str) -> int:
    value = int(text)
    if not 1 <= value <= MOST_RANKS:
        raise ValueError
    return value


def port(text: str) -> int:
    value = int(text)
    if not 0 < value < 65536:
        raise ValueError
    return value


def seconds(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise ValueError
    return value


_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def switch(text: str) -> bool:
    word = _WORDS.get(text.lower())
    return int(text) != 0 if word is None else word


def choice(*accepted: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in accepted:
            raise ValueError
        return text.lower()

    return parse


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def secret(text: str) -> bytes:
    value = bytes.fromhex(text)
    if len(value) < 16:
        raise ValueError
    return value


def amount(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return value


AMOUNT = "a number, 0 or more"
SHARE = "a number between 0 and 1"
SECONDS_OR_NEVER = "a number of seconds, 0 for never"
SWITCH = "0 or another whole number, false or true, no or yes, off or on"
COUNT = "a whole number, 0 or more, of 63 bits"
RANKS = f"a whole number, 1 to {MOST_RANKS}"
SECONDS = "a number of seconds above 0"
