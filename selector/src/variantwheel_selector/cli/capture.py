"""Write this machine's facts as text files, for a bug report or a test."""

from __future__ import annotations

import argparse
from pathlib import Path

from variantwheel_selector.cli.output import print_lines
from variantwheel_selector.machine import write_machine
from variantwheel_selector.probe import probe


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder that is new or empty")


def run(args: argparse.Namespace) -> int:
    """Write the folder and list its files."""
    write_machine(probe(), args.folder)
    print_lines(str(path) for path in sorted(args.folder.iterdir()))
    return 0
