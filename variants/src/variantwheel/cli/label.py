"""Make variant wheels of plain ones that were built elsewhere, by cibuildwheel for example."""

from __future__ import annotations

import argparse
from pathlib import Path

from variantwheel.cli.console import add_project_option, make_output, require_files, write
from variantwheel.labelling import label_wheel
from variantwheel.project import read_project
from variantwheel.release_folder import update_variants_json
from variantwheel.source_date import source_date_epoch
from variantwheel.wheel_archive import read_wheel
from variantwheel.wheel_writing import write_wheel
from variantwheel_selector.errors import UsageError


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
    make_output(args.output)
    written = [
        write_wheel(label_wheel(archive, args.label, info, None), args.output, epoch)
        for archive in archives
    ]
    update_variants_json(args.output, written, info)
    write("".join(f"{file}\n" for file in written))
    return 0
