"""Write CI configurations that build, check, test and release all variants."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from variantwheel.atomic_file import replace_file
from variantwheel.cli.console import add_project_option, report, warn, write
from variantwheel.errors import DefinitionError
from variantwheel.matrix import matrix_jobs
from variantwheel.project import Project, read_project
from variantwheel.workflows.cibuildwheel import cibuildwheel_config, cibuildwheel_name
from variantwheel.workflows.github import github_workflow
from variantwheel.workflows.gitlab import gitlab_pipeline


def workflow_files(project: Project, system: str) -> dict[str, str]:
    """Make the files of a CI system.

    Args:
        project: The project.
        system: `github`, `gitlab` or `cibuildwheel`.

    Returns:
        Texts by usual path, relative to the project.

    Raises:
        DefinitionError: The project's pyproject.toml does not say its name.
    """
    if not project.name:
        raise DefinitionError(
            f"{project.folder / 'pyproject.toml'}: project.name: missing key; a workflow installs "
            "the project by its name"
        )
    return dict(_SYSTEMS[system](project))


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("system", choices=sorted(_SYSTEMS), help="which CI system")
    add_project_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write the files into this folder, the project's own for example; "
        "without it they are shown",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; 1 when a file in the folder is missing or differs",
    )


def run(args: argparse.Namespace) -> int:
    """Write, show or compare the files."""
    project = read_project(args.project.resolve())
    files = workflow_files(project, args.system)
    if args.system != "cibuildwheel" and (untried := project.ci.untried()):
        warn(
            f"[tool.variantwheel.ci] test-interpreters names no {', '.join(untried)}, which "
            "wheels are built with: one that is for that CPython alone is never run"
        )
    if args.check:
        folder = args.output or project.folder
        stale = [
            name
            for name, text in files.items()
            if not (folder / name).is_file() or (folder / name).read_bytes() != text.encode()
        ]
        for name in stale:
            report(f"{folder / name}: stale; run `variantwheel workflow {args.system} -o {folder}`")
        return 1 if stale else 0
    for name, text in files.items():
        if args.output is None:
            write(f"# {name}\n{text}")
        else:
            replace_file(args.output / name, text.encode())
            write(f"{args.output / name}\n")
    return 0


def _github(project: Project) -> Mapping[str, str]:
    return {".github/workflows/variants.yml": github_workflow(project)}


def _gitlab(project: Project) -> Mapping[str, str]:
    return {"ci/gitlab.yml": gitlab_pipeline(project)}


def _cibuildwheel(project: Project) -> Mapping[str, str]:
    return {
        f"ci/cibuildwheel/{cibuildwheel_name(job)}": cibuildwheel_config(project, job)
        for job in matrix_jobs(project.definitions)
    }


_SYSTEMS: Mapping[str, Callable[[Project], Mapping[str, str]]] = MappingProxyType(
    {"github": _github, "gitlab": _gitlab, "cibuildwheel": _cibuildwheel}
)
