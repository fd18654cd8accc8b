"""Make variant wheels of plain ones that were built elsewhere, by cibuildwheel for example."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from variantwheel.cli.console import add_project_option, make_output, require_files, write
from variantwheel.labelling import label_wheel
from variantwheel.project import Project, read_project
from variantwheel.release_folder import update_variants_json
from variantwheel.source_date import source_date_epoch
from variantwheel.wheel_archive import WheelArchive, read_wheel
from variantwheel.wheel_writing import write_wheel
from variantwheel_selector.errors import UsageError
from variantwheel_selector.wheel_name import normalize_project


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("label", metavar="LABEL", help="what the wheels are a variant of")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a plain wheel")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the release folder"
    )
    add_project_option(parser)


def run(args: argparse.Namespace) -> int:
    """Label the wheels."""
    require_files(args.files)
    for file in args.files:
        if file.suffix != ".whl":
            raise UsageError(f"{file}: no wheel by its name, which has to end in .whl")
    project = read_project(args.project.resolve())
    info = project.variants_info([project.definition(args.label).label])
    epoch = source_date_epoch(project.folder)
    archives = [read_wheel(file) for file in args.files]
    for file, archive in zip(args.files, archives, strict=True):
        if archive.name.label is not None:
            raise UsageError(f"{file}: is variant {archive.name.label!r} already")
    _check_names(args.files, archives, project)
    make_output(args.output)
    written = dict.fromkeys(
        write_wheel(label_wheel(archive, args.label, info, None), args.output, epoch)
        for archive in archives
    )
    update_variants_json(args.output, written, info)
    write("".join(f"{file}\n" for file in written))
    return 0


def _check_names(files: Sequence[Path], archives: Sequence[WheelArchive], project: Project) -> None:
    """Refuse wheels of other projects, and such as would replace each other."""
    first: dict[str, tuple[Path, WheelArchive]] = {}
    for file, archive in zip(files, archives, strict=True):
        name = archive.name
        if project.name and normalize_project(name.distribution) != normalize_project(project.name):
            raise UsageError(
                f"{file}: is a wheel of {name.distribution!r}, and the definitions in "
                f"{project.folder} are those of {project.name!r}; name the other project's folder "
                "with --project DIR"
            )
        other, known = first.setdefault(str(name), (file, archive))
        if known.files != archive.files:
            raise UsageError(
                f"{file}: has the name of {other} and holds something else; one would replace the "
                "other, so label the one that is meant"
            )
