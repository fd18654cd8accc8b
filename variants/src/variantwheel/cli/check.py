"""Check variant wheels and conda packages before a release: labels, hashes, tags, code and more."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path

from variantwheel.checks.execution import EMULATION, EXECUTION, Emulator
from variantwheel.checks.rebuild import REPRODUCIBLE, Rebuild
from variantwheel.checks.report import Result, WheelReport, render_reports, reports_json
from variantwheel.checks.suite import CheckOptions, check_wheels
from variantwheel.cli.console import (
    add_project_option,
    add_pythons_option,
    report,
    require_files,
    write,
)
from variantwheel.conda_checks import check_conda_packages
from variantwheel.conda_package import is_conda_package
from variantwheel.project import read_project
from variantwheel_selector.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a variant wheel, or a conda package"
    )
    add_project_option(parser)
    add_pythons_option(parser)
    parser.add_argument("--json", action="store_true", help="write the result as JSON")
    parser.add_argument(
        "--run",
        action="store_true",
        help="install each wheel and run [tool.variantwheel.check] command",
    )
    parser.add_argument(
        "--must-run",
        action="store_true",
        help="with --run: fail where none of the wheels could be run, being for other machines or "
        "CPythons",
    )
    parser.add_argument(
        "--emulate",
        action="store_true",
        help="the same on the CPU models that the definitions name, emulated by qemu",
    )
    parser.add_argument(
        "--emulator",
        type=Path,
        metavar="PROGRAM",
        help="qemu's user-mode emulator of the machine whose --system is named",
    )
    parser.add_argument(
        "--system",
        type=Path,
        metavar="DIR",
        help="the root folder of another machine's Linux, with a Python: runs its wheels too",
    )
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="build each wheel again and compare the bytes",
    )
    parser.add_argument(
        "--no-isolation", action="store_true", help="rebuild in the current environment"
    )


def run(args: argparse.Namespace) -> int:
    """Check; 1 when a check failed."""
    require_files(args.files)
    for option, given, other, there in (
        ("--must-run", args.must_run, "--run", args.run),
        ("--emulator", args.emulator, "--emulate", args.emulate),
        ("--system", args.system, "--emulate", args.emulate),
    ):
        if given and not there:
            raise UsageError(f"{option} goes with {other}")
    project = read_project(args.project.resolve())
    rebuild = Rebuild(isolated=not args.no_isolation, report=report) if args.rebuild else None
    options = CheckOptions(
        execute=args.run,
        emulate=args.emulate,
        emulator=_emulator(args),
        all_pythons=args.pythons == "all",
        rebuild=rebuild,
    )
    conda = [file for file in args.files if is_conda_package(file)]
    reports = check_wheels([file for file in args.files if file not in conda], project, options)
    reports += check_conda_packages(conda, project)
    if args.json:
        write(json.dumps(reports_json(reports), indent=2) + "\n")
    else:
        write(render_reports(reports))
        failed = sum(not found.passed for found in reports)
        files = "files" if conda else "wheels"
        skipped = _skipped(reports, args)
        write(f"{len(reports)} {files} checked, {failed} failed{skipped}\n")
    passed = all(found.passed for found in reports)
    if args.must_run and not _ran(reports):
        report(
            "variantwheel: none of the wheels was run, and --must-run asks for one at least; "
            "`execution` says why: give this machine and this Python a wheel, or check on others"
        )
        passed = False
    return 0 if passed else 1


def _ran(reports: Iterable[WheelReport]) -> bool:
    """Tell whether a wheel was run, with whatever result."""
    return any(
        finding.check == EXECUTION and finding.result is not Result.SKIPPED
        for found in reports
        for finding in found.findings
    )


def _skipped(reports: Iterable[WheelReport], args: argparse.Namespace) -> str:
    """Word how many of the slow checks that were asked for could not be made."""
    asked = {EXECUTION: args.run, EMULATION: args.emulate, REPRODUCIBLE: args.rebuild}
    found = [
        finding.check
        for report in reports
        for finding in report.findings
        if finding.result is Result.SKIPPED and asked.get(finding.check)
    ]
    words = [f"{name} of {found.count(name)}" for name in asked if name in found]
    return f"; asked for and not made: {', '.join(words)}" if words else ""


def _emulator(args: argparse.Namespace) -> Emulator:
    system = None if args.system is None else args.system.resolve()
    if args.emulator is None:
        return Emulator(system=system)
    found = re.fullmatch(r"qemu-(\w+?)(-static)?", args.emulator.name)
    if found is None or not args.emulator.is_file():
        raise UsageError(
            f"--emulator {args.emulator}: no file of the name qemu-MACHINE or qemu-MACHINE-static, "
            "which says what it emulates; name qemu's user-mode emulator, with its folder"
        )
    return Emulator({found[1]: str(args.emulator.resolve())}, system)
