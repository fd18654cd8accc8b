"""Build the variant wheels of a project, one per label."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from variantwheel.cli.console import add_project_option, report, write
from variantwheel.project import Project, read_project
from variantwheel.release_folder import superseded_wheels, update_variants_json
from variantwheel.source_date import source_date_epoch
from variantwheel.text_table import render_table
from variantwheel.variant_build import (
    BuildOutcome,
    BuildPlan,
    build_variants,
    select_definitions,
)
from variantwheel_selector.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("labels", nargs="*", metavar="LABEL", help="the variants to build")
    parser.add_argument("--all", action="store_true", help="all variants of the machine")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the release folder"
    )
    add_project_option(parser)
    parser.add_argument(
        "--machine",
        default=os.uname().machine,
        metavar="NAME",
        help="what to build for (default: %(default)s, this machine)",
    )
    parser.add_argument(
        "--no-isolation",
        action="store_true",
        help="build in the current environment, which has to hold all build requirements",
    )
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="folder for sources, logs and environment (default: build/variantwheel in PROJECT)",
    )


def run(args: argparse.Namespace) -> int:
    """Build; 1 when a variant failed."""
    if args.all == bool(args.labels):
        raise UsageError("name the variants to build, or --all for all of them, not both")
    project = read_project(args.project.resolve())
    plan = BuildPlan(
        project=project,
        definitions=select_definitions(project, args.labels, args.machine),
        machine=args.machine,
        output=args.output.resolve(),
        work=(args.work or project.folder / "build" / "variantwheel").resolve(),
        isolated=not args.no_isolation,
        epoch=source_date_epoch(project.folder),
    )
    outcomes = build_variants(plan, report)
    _finish_release(project, plan.output, outcomes)
    header = ("label", "result", "size", "time", "file")
    write(render_table(header, [_row(outcome) for outcome in outcomes]))
    return 0 if all(outcome.wheel for outcome in outcomes) else 1


def _finish_release(project: Project, folder: Path, outcomes: list[BuildOutcome]) -> None:
    wheels = [outcome.wheel for outcome in outcomes if outcome.wheel]
    for wheel in wheels:
        for older in superseded_wheels(wheel):
            report(f"{older.name}: removed, {wheel.name} takes its place")
            older.unlink()
    info = project.variants_info(outcome.label for outcome in outcomes if outcome.wheel)
    file = update_variants_json(folder, wheels, info)
    if file is not None:
        report(f"{file}: says what the variants need")


def _row(outcome: BuildOutcome) -> tuple[str, ...]:
    seconds = f"{outcome.seconds:.1f} s"
    if outcome.wheel is None:
        return (outcome.label, "FAILED", "-", seconds, "-")
    size = f"{outcome.wheel.stat().st_size / 1024:.0f} KiB"
    return (outcome.label, "ok", size, seconds, outcome.wheel.name)
