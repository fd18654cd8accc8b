"""Commands whose output is kept, and shown when they fail."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_DEADLINE = 900
_LAST_LINES = 200
_MOST_WORDS = 9


class CommandFailedError(Exception):
    """A command is not there, or ended with an error; the text holds the end of what it printed."""


def run(*words: str, cwd: Path | None = None, seconds: float = _DEADLINE) -> str:
    """Run a command of this machine; gives what it printed, both streams.

    Args:
        words: The program and its arguments.
        cwd: Where it runs; none for where this process does.
        seconds: How long it may take.

    Raises:
        CommandFailedError: It is not there, ended with an error, or did not end in time.
    """
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError:
        raise CommandFailedError(f"{words[0]} is not there") from None
    except subprocess.TimeoutExpired:
        raise CommandFailedError(f"{_shown(words)} did not end within {seconds:.0f} s") from None
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise CommandFailedError(f"{_shown(words)} ended with {done.returncode}:\n{last}")
    return done.stdout


def _shown(words: Sequence[str]) -> str:
    """The command, without most of its options where these are many."""
    most = words if len(words) <= _MOST_WORDS else (words[0], "…", *words[2 - _MOST_WORDS :])
    return " ".join(most)
