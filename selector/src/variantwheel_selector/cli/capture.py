"""Write this machine's facts as text files, for a bug report or a test."""

from __future__ import annotations

import argparse
from pathlib import Path

from variantwheel_selector.cli.output import print_lines
from variantwheel_selector.machine_folder import write_machine, write_profile
from variantwheel_selector.probe import probe


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="a folder that is new or empty; or FILE.json, a machine profile in one file",
    )


def run(args: argparse.Namespace) -> int:
    """Write the folder and list its files, or write the one file."""
    machine = probe(libraries=True)
    if args.path.suffix == ".json":
        write_profile(machine, args.path)
        print_lines([str(args.path)])
        return 0
    write_machine(machine, args.path)
    print_lines(str(path) for path in sorted(args.path.iterdir()))
    return 0
