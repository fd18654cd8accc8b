"""Build the variant wheels of a project, one per label and machine."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from variantwheel.build_plan import BuildPlan, check_pythons, select_jobs
from variantwheel.checks.report import WheelReport, render_reports
from variantwheel.checks.suite import CheckOptions, check_wheels
from variantwheel.cli.console import (
    add_project_option,
    add_pythons_option,
    make_output,
    report,
    warn,
    write,
)
from variantwheel.interpreters import FoundInterpreters, copy_headers, find_interpreters
from variantwheel.project import Project, read_project
from variantwheel.release_folder import superseded_wheels, update_variants_json
from variantwheel.source_date import source_date_epoch
from variantwheel.text_table import render_table
from variantwheel.variant_build import BuildOutcome, build_variants
from variantwheel_selector.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("labels", nargs="*", metavar="LABEL", help="the variants to build")
    parser.add_argument("--all", action="store_true", help="all variants")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the release folder"
    )
    add_project_option(parser)
    parser.add_argument(
        "--machine",
        action="append",
        default=[],
        metavar="NAME",
        help="what to build for; may be repeated (default: all that can be built for here)",
    )
    add_pythons_option(parser)
    parser.add_argument(
        "--python",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="a CPython to build modules for, or a folder with its headers; may be repeated",
    )
    parser.add_argument(
        "--check", action="store_true", help="check the wheels too, without executing them"
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="fail where a declared wheel cannot be built on this machine, or must have a module "
        "for a CPython that is not here; build the others",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--rebuild", action="store_true", help="build again what has not changed, too"
    )
    again.add_argument(
        "--resume",
        action="store_true",
        help="take what an earlier run finished, if nothing has changed; toolchains that are "
        "incremental do so anyway, with others this trusts the system's compiler to be the same",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="how many compilers may run at once (default: %(default)s, this machine's cores)",
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
    """Build; 1 when a variant failed, or a check."""
    if args.all == bool(args.labels):
        raise UsageError("name the variants to build, or --all for all of them, not both")
    if args.jobs < 1:
        raise UsageError("--jobs: one at least")
    project = read_project(args.project.resolve())
    jobs, elsewhere = select_jobs(project, args.labels, args.machine)
    work = (args.work or project.folder / "build" / "variantwheel").resolve()
    make_output(args.output)
    found = _find_pythons(project, args)
    for line in elsewhere:
        report(f"not built here: {line}")
    plan = BuildPlan(
        project=project,
        jobs=jobs,
        output=args.output.resolve(),
        work=work,
        environments=work / "environments",
        isolated=not args.no_isolation,
        epoch=source_date_epoch(project.folder),
        cores=args.jobs,
        headers=tuple(
            (item.abi, copy_headers(item, work / "headers")) for item in found.interpreters
        ),
        rebuild=args.rebuild,
        resume=args.resume,
    )
    started = time.monotonic()
    outcomes = build_variants(plan, report)
    _finish_release(project, plan.output, outcomes)
    checks = _check(project, outcomes, args) if args.check else {}
    header = ("label", "machine", "result", "size", "time", "checks", "file")
    write(render_table(header, [_row(outcome, checks) for outcome in outcomes]))
    sizes = [outcome.wheel.stat().st_size for outcome in outcomes if outcome.wheel]
    seconds = time.monotonic() - started
    lacking = [item for item in project.pythons.versions if item in found.missing]
    missing = f", {len(elsewhere)} not here" if elsewhere else ""
    missing += f", without modules for CPython {', '.join(lacking)}" if lacking else ""
    write(
        f"{len(sizes)} of {len(outcomes) + len(elsewhere)} wheels{missing}, "
        f"{sum(sizes) / 1024 / 1024:.1f} MiB, {seconds:.0f} s\n"
    )
    built = all(outcome.wheel for outcome in outcomes)
    whole = built and not (args.complete and (elsewhere or lacking))
    return 0 if whole and all(item.passed for item in checks.values()) else 1


def _find_pythons(project: Project, args: argparse.Namespace) -> FoundInterpreters:
    pythons = project.pythons
    found = find_interpreters((*pythons.versions, *pythons.optional), args.python, os.environ)
    for warning in check_pythons(project, found.missing, allow_missing=args.pythons != "all"):
        warn(warning)
    if found.interpreters:
        names = ", ".join(item.version for item in found.interpreters)
        report(f"modules for CPython {names}")
    return found


def _finish_release(project: Project, folder: Path, outcomes: Sequence[BuildOutcome]) -> None:
    wheels = [outcome.wheel for outcome in outcomes if outcome.wheel]
    for wheel in wheels:
        for older in superseded_wheels(wheel):
            report(f"{older.name}: removed, {wheel.name} takes its place")
            older.unlink(missing_ok=True)
    labels = dict.fromkeys(item.job.definition.label for item in outcomes if item.wheel)
    file = update_variants_json(folder, wheels, project.variants_info(labels))
    if file is not None:
        report(f"{file}: says what the variants need")


def _check(
    project: Project, outcomes: Sequence[BuildOutcome], args: argparse.Namespace
) -> dict[str, WheelReport]:
    wheels = [outcome.wheel for outcome in outcomes if outcome.wheel]
    report(f"checking {len(wheels)} wheels")
    reports = check_wheels(wheels, project, CheckOptions(all_pythons=args.pythons == "all"))
    failed = [item for item in reports if not item.passed]
    if failed:
        write(render_reports(failed))
    return {item.file: item for item in reports}


def _row(outcome: BuildOutcome, checks: dict[str, WheelReport]) -> tuple[str, ...]:
    name = (outcome.job.definition.label, outcome.job.platform.machine)
    seconds = f"{outcome.seconds:.1f} s"
    if outcome.wheel is None:
        return (*name, "FAILED", "-", seconds, "-", "-")
    size = f"{outcome.wheel.stat().st_size / 1024:.0f} KiB"
    checked = checks.get(outcome.wheel.name)
    result = "kept" if outcome.kept else "ok"
    return (*name, result, size, seconds, checked.summary if checked else "-", outcome.wheel.name)
