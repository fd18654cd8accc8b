"""What the verbs write: results to standard output, progress and warnings to standard error."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


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


def write(text: str) -> None:
    """Write a part of the result."""
    sys.stdout.write(text)
    sys.stdout.flush()


def report(line: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def warn(line: str) -> None:
    """Write a line about something that is allowed and probably not meant."""
    report(f"variantwheel: warning: {line}")
