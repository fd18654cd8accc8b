"""Write the wheels of a selector sdist into a folder, each with its hash verified."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from variantwheel_selector.cli.output import add_json_option, print_json, print_lines
from variantwheel_selector.errors import ReleaseError, UsageError
from variantwheel_selector.manifest import Manifest, PayloadWheel
from variantwheel_selector.payload import copy_payload
from variantwheel_selector.sdist_source import payload_wheel, sdist_from_file, unpacked
from variantwheel_selector.settings import read_settings
from variantwheel_selector.suggestion import suggestion
from variantwheel_selector.variants_json import render_variants_json
from variantwheel_selector.wheel_file import write_beside
from variantwheel_selector.wheel_name import escape_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_EPILOG = """\
The wheels are those of the release, byte for byte, under their names with labels. Beside them comes
NAME-VERSION-variants.json, so that variant-aware installers can use the folder (--find-links), and
`variantwheel index` can serve it. Installers without variants take no wheel with a label: they want
the sdist itself, or what `variantwheel lock` writes.

An sdist that holds hashes alone names wheels that are elsewhere. They are fetched from where pip or
uv would, and verified.

examples:
  variantwheel unpack horovod_variants-0.1.0.tar.gz -o wheels
  variantwheel unpack horovod_variants-0.1.0.tar.gz -o wheels --label cu12 --label null
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("sdist", type=Path, metavar="SDIST", help="a selector sdist, packed or not")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR",
        help="the folder for the wheels; files of the same names are replaced",
    )  # fmt: skip
    parser.add_argument(
        "--label",
        action="append",
        metavar="LABEL",
        help="a variant; once for each, by default all of them",
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Write the wheels; 1 if one is not the released one or cannot be had."""
    sdist = sdist_from_file(args.sdist)
    manifest = sdist.manifest
    wheels = _chosen(manifest, args.label)
    settings = read_settings(None, os.environ, manifest.name)
    with unpacked(sdist, wheels) as source:
        for wheel in wheels:
            with payload_wheel(source, wheel, settings, os.environ) as path:
                _write_wheel(args.output, wheel, path)
    variants = f"{escape_project(manifest.name)}-{manifest.version}-variants.json"
    text = render_variants_json(manifest.variants).encode("utf-8")
    write_beside(str(args.output), variants, lambda file: file.write(text) > 0)
    if args.json:
        print_json(
            {
                "schema": 1,
                "project": manifest.name,
                "version": manifest.version,
                "wheels": [
                    {
                        "filename": wheel.filename,
                        "label": wheel.label,
                        "size": wheel.size,
                        "sha256": wheel.sha256,
                    }
                    for wheel in wheels
                ],
                "variants_json": variants,
            }
        )
    else:
        print_lines(_lines(args.output, manifest, wheels, variants))
    return 0


def _chosen(manifest: Manifest, labels: list[str] | None) -> list[PayloadWheel]:
    if not manifest.wheels:
        raise ReleaseError(
            f"the sdist of {manifest.name} {manifest.version} lists no wheels, there is nothing to "
            "unpack; take the one that its project published"
        )
    known = sorted({wheel.label for wheel in manifest.wheels})
    for label in labels or ():
        if label not in known:
            raise UsageError(
                f"{manifest.name} {manifest.version} has no wheel with the label {label!r}, "
                f"but with {', '.join(known)}{suggestion(label, known)}"
            )
    return [wheel for wheel in manifest.wheels if labels is None or wheel.label in labels]


def _write_wheel(folder: Path, wheel: PayloadWheel, path: Path) -> None:
    def write(file: BinaryIO) -> bool:
        copy_payload(path, wheel, file)
        return True

    try:
        write_beside(str(folder), wheel.filename, write)
    except OSError as error:
        # A disk that is full says nothing of the file.
        error.filename = error.filename or str(folder / wheel.filename)
        raise


def _lines(
    folder: Path, manifest: Manifest, wheels: list[PayloadWheel], variants: str
) -> Iterator[str]:
    yield f"{manifest.name} {manifest.version}: {len(wheels)} wheels and {variants} in {folder}"
    for wheel in wheels:
        yield f"  {wheel.filename}  sha256 {wheel.sha256}"
