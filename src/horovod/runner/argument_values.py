"""What arguments of a job may be: flags, whose values are text, and attributes that callers set."""

import argparse
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from horovod._setting_values import seconds


@dataclass(frozen=True)
class Value:
    """One kind of value.

    Attributes:
        accepted: what there is, in words.
        parse: turns text into it; raises ValueError when it cannot.
    """

    accepted: str
    parse: Callable[[str], int | float]

    def __call__(self, text: str) -> int | float:
        """Reads a flag's argument.

        Raises:
            ArgumentTypeError: it is not accepted.
        """
        try:
            return self.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {self.accepted}") from None

    def take(self, name: str, value: object) -> int | float:
        """Reads an attribute's value, which is what a flag could say.

        Raises:
            ValueError: it is not accepted.
        """
        try:
            return self.parse("" if isinstance(value, str) else str(value))
        except ValueError:
            raise ValueError(f"{name}={value!r} is not {self.accepted}") from None


def _digits(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError
    return int(text)


def _above_zero(text: str) -> int:
    if (value := _digits(text)) < 1:
        raise ValueError
    return value


POSITIVE = Value("a whole number, 1 or more", _above_zero)
COUNT = Value("a whole number, 0 or more", _digits)
SECONDS = Value("a number of seconds above 0", seconds)

_VALUES = {
    "min_num_proc": POSITIVE,
    "num_proc": POSITIVE,  # which may come from the one before
    "max_num_proc": POSITIVE,
    "slots": POSITIVE,
    "reset_limit": COUNT,
    "start_timeout": SECONDS,
    "elastic_timeout": SECONDS,
    "ssh_port": POSITIVE,
}
_PATHS = ("hostfile", "host_discovery_script", "ssh_identity_file", "output_filename")


def _cooldown(cooldown: Any) -> tuple[float, float]:
    try:
        shortest, longest = cooldown
    except (TypeError, ValueError):
        raise ValueError(
            f"cooldown_range={cooldown!r} is not two numbers of seconds, shortest and longest"
        ) from None
    both = SECONDS.take("cooldown_range", shortest), SECONDS.take("cooldown_range", longest)
    if both[0] > both[1]:
        raise ValueError(f"cooldown_range={cooldown!r}: the shortest time is above the longest")
    return both


def elastic_contradiction(
    args: argparse.Namespace, least: str, start: str, most: str
) -> str | None:
    """What does not hold between an elastic job's numbers of ranks; None when all does.

    Args:
        args: whose `num_proc` is set.
        least: what the user calls `min_num_proc`.
        start: likewise, `num_proc`.
        most: likewise, `max_num_proc`.
    """
    low = args.num_proc if args.min_num_proc is None else args.min_num_proc
    high = math.inf if args.max_num_proc is None else args.max_num_proc
    if low <= args.num_proc <= high:
        return None
    above = "" if args.max_num_proc is None else f" <= {most} {high}"
    return f"{least} {low} <= {start} {args.num_proc}{above} does not hold"


def require_values(args: argparse.Namespace) -> None:
    """Refuses what callers have set and no command line could say; makes the rest what that says.

    Raises:
        ValueError: an attribute's value is not accepted, or some contradict each other.
    """
    for name, kind in _VALUES.items():
        if (value := getattr(args, name)) is not None:
            setattr(args, name, kind.take(name, value))
    for name in _PATHS:
        if (path := getattr(args, name)) is not None:
            if not isinstance(path, (str, os.PathLike)):
                raise ValueError(f"{name}={path!r} is no path")
            setattr(args, name, os.fspath(path))
    if args.hosts is not None and not isinstance(args.hosts, str):
        raise ValueError(f"hosts={args.hosts!r} is not of the form 'host-1:2,host-2:4'")
    if args.cooldown_range is not None:
        args.cooldown_range = _cooldown(args.cooldown_range)
    if args.min_num_proc is not None or args.host_discovery_script is not None:
        names = ("min_num_proc", "num_proc", "max_num_proc")
        if (wrong := elastic_contradiction(args, *names)) is not None:
            raise ValueError(wrong)
