"""What the verbs write: results to standard output, progress and warnings to standard error."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from variantwheel_selector.cli.output import write_text
from variantwheel_selector.errors import UsageError, printable
from variantwheel_selector.system_refusal import is_refusal


def add_project_option(parser: argparse.ArgumentParser) -> None:
    """Add `--project DIR`."""
    parser.add_argument(
        "--project",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the folder with the project's pyproject.toml (default: this folder)",
    )


def add_pythons_option(parser: argparse.ArgumentParser) -> None:
    """Add `--pythons`."""
    parser.add_argument(
        "--pythons",
        choices=("all", "available"),
        default="all",
        help="which of the declared CPythons the wheels must serve: all of them, or those that are "
        "on the machine that builds (default: %(default)s)",
    )


def require_files(files: Iterable[Path]) -> None:
    """Refuse arguments that name no file.

    Args:
        files: What the user named.

    Raises:
        UsageError: One is a folder, or is not there.
    """
    for file in files:
        if file.is_dir():
            raise UsageError(f"{file}: a folder; name the files in it: {file}/*.whl")
        if not file.is_file():
            raise UsageError(f"{file}: no such file")


def make_output(folder: Path) -> None:
    """Make the folder for the results, before there are any that would be lost.

    Args:
        folder: What the user named with `-o`.

    Raises:
        UsageError: Nothing can be written there.
        OSError: The system refuses for now, as with a full disk.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: no folder; name the one for the results with -o DIR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".variantwheel-", dir=folder):
            pass
    except OSError as error:
        if is_refusal(error):
            raise
        raise UsageError(
            f"{folder}: nothing can be written there ({error.strerror}); name another folder "
            "with -o DIR"
        ) from error


def write(text: str) -> None:
    """Write a part of the result; what a terminal would act upon is escaped.

    Args:
        text: With its line feeds; JSON has to be ASCII.

    Raises:
        OutputError: It cannot be written.
    """
    write_text(_printable_lines(text))


def report(line: str) -> None:
    """Write a line of progress, as `write` does."""
    sys.stderr.write(f"{_printable_lines(line)}\n")
    sys.stderr.flush()


def warn(line: str) -> None:
    """Write a line about something that is allowed and probably not meant."""
    report(f"variantwheel: warning: {line}")


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
