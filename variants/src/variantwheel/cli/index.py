"""Add a release folder to a static index, which any plain web server can serve."""

from __future__ import annotations

import argparse
from pathlib import Path

from variantwheel.cli.console import report, warn, write
from variantwheel.errors import ReleaseFolderError
from variantwheel.index_site import update_site


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("release", type=Path, metavar="DIR", help="the release folder")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="SITE",
        help="the site; what it offers already stays, its pages are in SITE/simple",
    )


def run(args: argparse.Namespace) -> int:
    """Update the site."""
    if not args.release.is_dir():
        raise ReleaseFolderError(f"{args.release}: no such folder")
    simple = args.output / "simple"
    update = update_site(args.release, args.output, report)
    for warning in update.warnings:
        warn(warning)
    for name in update.added:
        report(f"added {name}")
    count = sum(len(files) for files in update.projects.values())
    write(f"{simple}  {len(update.projects)} projects, {count} files\n")
    return 0
