"""Where `horovodrun`'s own words end on its command line, and what the user's command is."""

import argparse
import re
from collections.abc import Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def split_words(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Own flags with their values, and what follows them.

    argparse would look for abbreviations of its flags among the command's words as well, and
    before Python 3.12 refuse those that might mean several.
    """
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        at += 1 + _values_after(parser, words[at])
    return words[:at], words[at:]


def _values_after(parser: argparse.ArgumentParser, word: str) -> int:
    """How many words belong to a flag; 0 for one that argparse refuses anyhow."""
    flags = parser._option_string_actions  # noqa: SLF001 - argparse tells them nowhere else
    action = flags.get(word)
    if action is None:
        meant = {flags[flag] for flag in flags if flag.startswith(word)}
        attached = not word.startswith("--") and word[:2] in flags  # as in -p22
        if attached or len(meant) != 1:
            return 0
        action = meant.pop()
    if action.nargs is None:
        return 1
    return action.nargs if isinstance(action.nargs, int) else 0


def command_of(words: Sequence[str]) -> list[str]:
    """The command as it is run; variables in front of it, `NAME=value`, are set by env(1).

    Returns:
        Nothing when there is no program.
    """
    command = list(words[1:] if words[:1] == ["--"] else words)
    if not command or not _ASSIGNMENT.fullmatch(command[0]):
        return command
    return [] if all(map(_ASSIGNMENT.fullmatch, command)) else ["env", *command]
