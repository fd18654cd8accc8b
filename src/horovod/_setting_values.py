"""One environment variable: how its text becomes a value, and what is said when it cannot."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_RANKS = 1 << 20  # of a job, as the core has it
LONGEST = 1e9  # seconds, thirty years; more overflows the system's clocks


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
        text = self._text(environment)
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            shown = "<not shown>" if self.name.endswith("SECRET_KEY") else repr(text)
            raise SettingError(
                f"{self.name}={shown} is not accepted: it must be {self.accepted}"
            ) from None

    def is_given(self, environment: Mapping[str, str]) -> bool:
        """Whether the user has chosen; a variable that holds nothing but white space is none."""
        return bool(self._text(environment))

    def _text(self, environment: Mapping[str, str]) -> str:
        return environment.get(self.name, "").strip()


_MOST = (1 << 63) - 1


def _whole(text: str) -> int:
    """A whole number, also one that is written as 1e6 or 64.0."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise
        return int(value)


def count(text: str) -> int:
    value = _whole(text)
    if not 0 <= value <= _MOST:
        raise ValueError
    return value


def small_count(text: str) -> int:
    value = _whole(text)
    if not 0 <= value < 1 << 31:
        raise ValueError
    return value


def fanout(text: str) -> int:
    value = small_count(text)
    if value == 1:
        raise ValueError
    return value


def capacity(text: str) -> int:
    value = _whole(text)
    if value > _MOST:
        raise ValueError
    return value if value >= 0 else _MOST


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
    return min(value, LONGEST)


_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def switch(text: str) -> bool:
    word = _WORDS.get(text.lower())
    return int(text) != 0 if word is None else word


def choice(*accepted: str, **also: str) -> Callable[[str], str]:
    """What reads one of some words, in any case.

    Args:
        accepted: the words.
        also: other words, each with the one that it stands for.
    """

    def parse(text: str) -> str:
        word = also.get(text.lower(), text.lower())
        if word not in accepted:
            raise ValueError
        return word

    return parse


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


class Secret(bytes):
    """A secret that messages about the call it is passed to do not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<not shown>"

    __str__ = __repr__  # that of `bytes` shows them


def utf8(text: str) -> str:
    text.encode()  # what Python has read of other bytes cannot be
    return text


def names(text: str) -> str:
    given = [name.strip() for name in text.split(",") if name.strip()]
    if not given:
        raise ValueError
    return utf8(",".join(given))


def secret(text: str) -> Secret:
    value = Secret.fromhex(text)
    if len(value) < 16:
        raise ValueError
    return value


def amount(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return min(value, LONGEST)


def wait(text: str) -> float:
    value = amount(text)
    if value > 3_600_000:  # an hour
        raise ValueError
    return value


AMOUNT = "a number, 0 or more"
SHARE = "a number between 0 and 1"
SECONDS_OR_NEVER = "a number of seconds, 0 for never"
SWITCH = "0 or another whole number, false or true, no or yes, off or on"
COUNT = "a whole number, 0 or more, of 63 bits"
SMALL_COUNT = "a whole number, 0 to 2147483647"
FANOUT = "a whole number, 0 or 2 to 2147483647"
WAIT = "a number, 0 to 3600000"
CAPACITY = "a whole number of 63 bits, below 0 for no limit"
RANKS = f"a whole number, 1 to {MOST_RANKS}"
SECONDS = "a number of seconds above 0"
SECONDS_OR_DEFAULT = "a number of seconds, 0 for the default"
