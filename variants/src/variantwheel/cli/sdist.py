"""Make the selector sdist of a release, which stock pip and uv install the right variant from."""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path

from variantwheel.build_frontend import open_frontend
from variantwheel.cli.console import add_project_option, make_output, report, warn, write
from variantwheel.completeness import (
    absent_altogether,
    check_complete,
    missing_variants,
    without_fallback,
)
from variantwheel.coverage import (
    captured_machines,
    coverage,
    coverage_json,
    covered_interpreters,
    typical_machines,
)
from variantwheel.project import Project, read_project
from variantwheel.sdist_archive import unpack_sdist
from variantwheel.selector_sdist import (
    SIZE_BUDGET,
    Payload,
    ProjectSources,
    collect_payload,
    write_selector_sdist,
)
from variantwheel.shared_pieces import share_pieces
from variantwheel.source_date import source_date_epoch
from variantwheel.text_table import render_table
from variantwheel.variant_build import build_project_sdist, locked_work_folder
from variantwheel_selector.errors import UsageError
from variantwheel_selector.manifest import INDEX_URL_PATTERN


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("release", type=Path, metavar="DIR", help="the folder with the wheels")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="where the sdist goes")
    add_project_option(parser)
    parser.add_argument(
        "--allow-partial",
        action="store_true",
        help="release although variants are missing that the definitions promise",
    )
    parser.add_argument(
        "--payload",
        choices=("embedded", "manifest"),
        default="embedded",
        help="put the wheels into the sdist (default), or only their hashes, so that an "
        "installation fetches the wheel that it chose from the user's index",
    )
    parser.add_argument(
        "--index-url",
        metavar="URL",
        help="with --payload manifest: a public index that has the wheels, asked last",
    )
    parser.add_argument(
        "--no-source", action="store_true", help="leave out the sources: no source builds"
    )
    parser.add_argument(
        "--no-isolation",
        action="store_true",
        help="build the project's own sdist in the current environment",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write nothing but a table of what every known machine would get",
    )
    parser.add_argument(
        "--machines",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="with --dry-run: captured machines, instead of those of [tool.variantwheel] machines",
    )
    parser.add_argument("--json", action="store_true", help="with --dry-run: the table as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the sdist and its name."""
    embedded = args.payload == "embedded"
    if args.index_url is not None and (
        embedded or not re.fullmatch(INDEX_URL_PATTERN, args.index_url)
    ):
        raise UsageError(
            "--index-url goes with --payload manifest"
            if embedded
            else "--index-url takes an http or https URL without login, query and fragment: the "
            "sdist is public"
        )
    for option, given in (("--machines", args.machines), ("--json", args.json)):
        if given and not args.dry_run:
            raise UsageError(f"{option} goes with --dry-run")
    if args.output is not None and args.dry_run:
        raise UsageError("-o goes without --dry-run, which writes no sdist; leave out one of them")
    if args.output is None and not args.dry_run:
        raise UsageError("name the folder for the sdist with -o DIR, or ask for a --dry-run")
    project = read_project(args.project.resolve())
    payload = collect_payload(args.release, project)
    if args.allow_partial:
        for missing in missing_variants(payload, project):
            warn(f"released without {missing}")
    else:
        check_complete(payload, project)
    for warning in (*without_fallback(payload), *absent_altogether(payload, project)):
        warn(warning)
    if args.dry_run:
        _show_coverage(payload, project, args)
        return 0
    make_output(args.output)
    epoch = source_date_epoch(project.folder)
    sources = None
    if not args.no_source:
        sources = _build_sources(project, epoch, isolated=not args.no_isolation)
    file = write_selector_sdist(
        payload, sources, project, args.output, epoch,
        embedded=embedded, index_url=args.index_url,
    )  # fmt: skip
    size = file.stat().st_size
    _warn_of_size(file.name, size)
    if not embedded and args.index_url is None:
        warn(
            "no --index-url is named: machines find the wheels only where pip or uv is configured "
            "for an index, or VARIANTWHEEL_INDEX_URL is set"
        )
    content = "" if embedded else " by hash"
    write(f"{file}  {size / 1024:.0f} KiB, {len(payload.wheels)} wheels{content}\n")
    return 0


def _show_coverage(payload: Payload, project: Project, args: argparse.Namespace) -> None:
    folders = args.machines or [project.folder / name for name in project.machines]
    machines = captured_machines(folders) if folders else typical_machines(project.namespaces)
    names = [wheel.name for wheel in payload.wheels]
    interpreters = covered_interpreters(names, project.ci)
    table = coverage(payload.info, names, machines, interpreters)
    sizes = f"{sum(wheel.stat().st_size for wheel in payload.wheels) / 1024:.0f} KiB"
    if args.payload == "embedded":
        shared = share_pieces(payload.wheels).size
        _warn_of_size("the payload", shared)
        sizes += f", {shared / 1024:.0f} KiB in the sdist"
    if args.json:
        write(json.dumps(coverage_json(table), indent=2) + "\n")
        return
    rows = [[item.name, *(item.choices[name] or "-" for name in interpreters)] for item in table]
    write(render_table(["machine", *interpreters], rows))
    write(f"{len(names)} wheels, {sizes}; - where nothing fits\n")


def _warn_of_size(what: str, size: int) -> None:
    if size > SIZE_BUDGET:
        warn(
            f"{what} has {size / 2**20:.0f} MiB; public indexes refuse files above "
            f"{SIZE_BUDGET / 2**20:.0f} MiB unless asked for more; --payload manifest leaves the "
            "wheels on an index"
        )


def _build_sources(project: Project, epoch: int, *, isolated: bool) -> ProjectSources:
    work = project.folder / "build" / "variantwheel"
    with (
        locked_work_folder(work, report),
        open_frontend(work / "environments", isolated=isolated) as frontend,
    ):
        report(f"{project.folder}: building the sdist with the project's sources")
        archive = build_project_sdist(project.folder, frontend, work, epoch)
        # In a tree of its own: some backends leave files behind when they are asked.
        with tempfile.TemporaryDirectory(prefix=".requirements-", dir=work) as folder:
            unpack_sdist(archive, Path(folder))
            requires = frontend.wheel_requirements(Path(folder), work / "requirements.log")
    return ProjectSources(archive, requires)
