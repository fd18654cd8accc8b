"""Check variant wheels before a release: labels, hashes, tags, code and more."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from variantwheel.checks.report import render_reports, reports_json
from variantwheel.checks.suite import check_wheels
from variantwheel.cli.console import add_project_option, write
from variantwheel.project import read_project
from variantwheel_selector.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a variant wheel")
    add_project_option(parser)
    parser.add_argument("--json", action="store_true", help="write the result as JSON")
    parser.add_argument(
        "--run",
        action="store_true",
        help="install each wheel and run [tool.variantwheel.check] command",
    )


def run(args: argparse.Namespace) -> int:
    """Check; 1 when a check failed."""
    for file in args.files:
        if not file.is_file():
            raise UsageError(f"{file}: no such file")
    project = read_project(args.project.resolve())
    reports = check_wheels(args.files, project, execute=args.run)
    if args.json:
        write(json.dumps(reports_json(reports), indent=2) + "\n")
    else:
        write(render_reports(reports))
        failed = sum(not report.passed for report in reports)
        write(f"{len(reports)} wheels checked, {failed} failed\n")
    return 0 if all(report.passed for report in reports) else 1
