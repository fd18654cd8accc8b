"""Start a project's variants: a baseline for each machine, and x86-64-v3."""

from __future__ import annotations

import argparse
from pathlib import Path

from variantwheel.atomic_file import extend_file, extended, replace_file
from variantwheel.cli.console import write
from variantwheel.errors import DefinitionError
from variantwheel.project import read_project
from variantwheel.toml_table import parse_toml, read_toml
from variantwheel_selector.wheel_name import escape_project

_FOLDER = "variants"
_NULL = """\
# The baseline: what every machine of a platform runs. It has no properties and always fits.
label = "null"
summary = "baseline CPU"

[[platforms]]
machine = "x86_64"
runner = "ubuntu-24.04"
emulate = { runs = ["qemu64"] }

[[platforms]]
machine = "aarch64"
runner = "ubuntu-24.04-arm"
"""
_X86_64_V3 = """\
# Haswell and newer. The flags reach every build backend that honours CFLAGS and its kin; the one of
# the linker makes the loader refuse the libraries on an older CPU.
label = "x86_64_v3"
summary = "AVX2, FMA"

[properties]
x86_64.level = ["v3"]

[[platforms]]
machine = "x86_64"
runner = "ubuntu-24.04"
isa = "x86_64_v3"
emulate = { runs = ["Haswell-noTSX"] }

[platforms.environment]
CFLAGS = "-march=x86-64-v3"
CXXFLAGS = "-march=x86-64-v3"
LDFLAGS = "-Wl,-z,x86-64-v3"
"""
_SETTINGS = """
[tool.variantwheel]
definitions = "variants"
namespace-priorities = ["x86_64"]

[tool.variantwheel.check]
command = ["python", "-c", "import {module}"]
# All libraries of a wheel are of its variant's level. For slower code instead of an import error on
# a CPU that is too old, build each level into a folder named after it, and delete this line.
whole-wheel = true
"""


_IGNORED = ("/build/", "/release/", "/site/")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the folder with the project's pyproject.toml (default: this folder)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the definitions and the settings."""
    folder: Path = args.folder.resolve()
    settings = folder / "pyproject.toml"
    document = read_toml(settings)
    if "variantwheel" in document.table("tool").members:
        raise document.table("tool").fault(
            "variantwheel", "the project has variants already; `variantwheel matrix` lists them"
        )
    name = document.table("project").string("name")
    files = {"null.toml": _NULL, "x86_64_v3.toml": _X86_64_V3}
    for file in files:
        if (folder / _FOLDER / file).exists():
            raise DefinitionError(f"{folder / _FOLDER / file}: is there already; move it away")
    module = escape_project(name)
    added = _SETTINGS.replace("{module}", module)
    _try_added(settings, added)
    for file, text in files.items():
        replace_file(folder / _FOLDER / file, text.encode())
        write(f"{folder / _FOLDER / file}\n")
    _ignore_outputs(folder / ".gitignore")
    extend_file(settings, added)
    read_project(folder)
    write(
        f"{settings}: [tool.variantwheel] added; it imports {module!r} to try the wheels\n"
        "next: variantwheel build --all -o release && variantwheel check release/*.whl --run\n"
    )
    return 0


def _try_added(settings: Path, added: str) -> None:
    try:
        parse_toml(extended(settings.read_bytes(), added).decode(), settings)
    except DefinitionError as error:
        raise DefinitionError(
            f"{settings}: [tool.variantwheel] cannot be added, because 'tool' is an inline table; "
            "write what is in it as tables, [tool.NAME]; nothing was changed"
        ) from error


def _ignore_outputs(file: Path) -> None:
    """Keep what is made out of version control, and so out of most backends' sdists."""
    text = file.read_bytes().decode(errors="replace") if file.is_file() else ""
    missing = [line for line in _IGNORED if line not in text.splitlines()]
    if missing:
        extend_file(file, "".join(f"{line}\n" for line in missing))
        write(f"{file}\n")
