"""What the verbs have in common: the machine they look at and how they print."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from variantwheel_selector.errors import OutputError, UsageError, printable
from variantwheel_selector.json_text import render_json
from variantwheel_selector.machine import Machine
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.probe import probe

_PROJECT_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"  # PEP 508's names


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_machine_option(parser: argparse.ArgumentParser) -> None:
    """Add `--machine DIR`."""
    parser.add_argument(
        "--machine",
        type=Path,
        metavar="PATH",
        help="a machine that 'variantwheel capture' wrote down, instead of this one",
    )


def chosen_machine(args: argparse.Namespace) -> Machine:
    """Return the machine of `--machine`, or this one."""
    return probe(libraries=True) if args.machine is None else read_machine(args.machine)


def asked_release(text: str) -> tuple[str, str | None]:
    """Return project and version of `PROJECT[==VERSION]`.

    Raises:
        UsageError: This is neither.
    """
    project, equal_signs, version = (part.strip() for part in text.partition("=="))
    if not re.fullmatch(_PROJECT_PATTERN, project) or bool(equal_signs) != bool(version):
        raise UsageError(f"{text!r} is neither PROJECT nor PROJECT==VERSION")
    return project, version or None


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output; what a terminal would act upon is escaped.

    Raises:
        OutputError: They cannot be written.
    """
    write_text("".join(f"{printable(line)}\n" for line in lines))


def warn(line: str) -> None:
    """Write a line to standard error about something that is allowed and probably not meant."""
    if sys.stderr is not None:
        sys.stderr.write(f"variantwheel: warning: {printable(line)}\n")


def print_json(document: Mapping[str, object]) -> None:
    """Write a JSON document to standard output: in ASCII, which every encoding holds.

    Raises:
        OutputError: It cannot be written.
    """
    text = render_json(document)
    write_text(re.sub(r"[^\x00-\x7f]", lambda sign: json.dumps(sign[0])[1:-1], text))


def write_text(text: str) -> None:
    """Write text to standard output.

    Raises:
        OutputError: It cannot be written.
        BrokenPipeError: Who reads it has gone.
    """
    if sys.stdout is None:
        raise OutputError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        give_up_output()
        raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def give_up_output() -> None:
    """Lead standard output nowhere, so that nothing more is tried when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
