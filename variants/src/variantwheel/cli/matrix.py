"""List the wheels of a release: label, machine, runner and how each is built."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

from variantwheel.cli.console import add_project_option, warn, write
from variantwheel.definition import Definition
from variantwheel.matrix import MatrixJob, matrix_jobs
from variantwheel.project import read_project
from variantwheel.text_table import render_table
from variantwheel.workflows.gitlab import gitlab_matrix
from variantwheel_selector.errors import UsageError
from variantwheel_selector.model import NULL_LABEL


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_project_option(parser)
    parser.add_argument("--machine", metavar="NAME", help="only wheels for this machine")
    parser.add_argument(
        "--format",
        choices=("table", "markdown", "json", "github", "gitlab"),
        default="table",
        help="github: one line for a job's `strategy.matrix`; gitlab: one for its `parallel`; "
        "markdown: a table for a README "
        "(default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the matrix."""
    definitions = read_project(args.project).definitions
    jobs = matrix_jobs(definitions, args.machine)
    if not jobs:
        known = {job.platform.machine for job in matrix_jobs(definitions)}
        raise UsageError(
            f"no variant is built for {args.machine!r}, only for {', '.join(sorted(known))}; "
            "name one of them with --machine, or leave it out for all"
        )
    if not any(item.label == NULL_LABEL for item in definitions):
        warn(
            f"no variant {NULL_LABEL!r} is defined: users whose hardware none of the others fits "
            f"get nothing, and an error; write {NULL_LABEL}.toml"
        )
    documents = [job.to_json() for job in jobs]
    if args.format == "github":
        write(json.dumps({"include": documents}, separators=(",", ":")) + "\n")
    elif args.format == "gitlab":
        write(json.dumps(gitlab_matrix(jobs), separators=(",", ":")) + "\n")
    elif args.format == "json":
        write(json.dumps({"schema": 1, "jobs": documents}, indent=2) + "\n")
    elif args.format == "markdown":
        write(markdown_table(jobs))
    else:
        header = ("label", "machine", "runner", "toolchain", "isa", "settings", "properties")
        write(render_table(header, [_row(job) for job in jobs]))
    return 0


def markdown_table(jobs: Iterable[MatrixJob]) -> str:
    """What a reader of a README wants to know of the variants, as a table in Markdown."""
    machines: dict[str, list[str]] = {}
    definitions: dict[str, Definition] = {}
    for job in jobs:
        definitions[job.definition.label] = job.definition
        machines.setdefault(job.definition.label, []).append(job.platform.machine)
    lines = ["| label | machines | needs | for |", "|---|---|---|---|"]
    for label, definition in definitions.items():
        needs = "; ".join(
            f"`{feature}` {', '.join(values)}" for feature, values in _by_feature(definition)
        )
        lines.append(
            f"| `{label}` | {', '.join(machines[label])} | {needs or 'nothing'} "
            f"| {definition.summary} |"
        )
    return "\n".join(lines) + "\n"


def _by_feature(definition: Definition) -> list[tuple[str, list[str]]]:
    """The values of each feature; any one of them will do, as PEP 825 says."""
    values: dict[str, list[str]] = {}
    for item in definition.variant.properties:
        values.setdefault(f"{item.namespace} :: {item.feature}", []).append(item.value)
    return list(values.items())


def _row(job: MatrixJob) -> tuple[str, ...]:
    platform = job.platform
    settings = [f"{key}={value}" for key, value in platform.config_settings.items()]
    settings += [f"{key}={value}" for key, value in platform.environment.items()]
    properties = "; ".join(
        f"{feature} :: {', '.join(values)}" for feature, values in _by_feature(job.definition)
    )
    return (
        job.definition.label,
        platform.machine,
        platform.runner,
        platform.toolchain,
        platform.isa,
        " ".join(settings) or "-",
        properties or "-",
    )
