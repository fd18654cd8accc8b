"""The check of what pip and uv look at as they unpack a wheel, and refuse where it is wrong."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from variantwheel.checks.report import Finding, judge
from variantwheel.checks.subject import CheckSubject
from variantwheel.errors import WheelFormatError

_SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")
"""Folders of `NAME-VERSION.data` (PEP 427)."""
_SCRIPTS = ("console_scripts", "gui_scripts")
_REFERENCE = re.compile(r"[\w.]+\s*:\s*[\w.]+\s*(?:\[[^\]]*\])?")


def check_installable(subject: CheckSubject) -> Finding:
    """See whether installers take the wheel's WHEEL, METADATA, entry points and `.data` folder."""
    faults = [
        *_wheel_version_faults(
            subject.archive.files.get(f"{subject.archive.dist_info}/WHEEL", b"")
        ),
        *_metadata_faults(subject.archive.dist_info_file("METADATA")),
        *_entry_point_faults(
            subject.archive.files.get(f"{subject.archive.dist_info}/entry_points.txt", b"")
        ),
        *_data_faults(subject),
    ]
    return judge("installable", faults, "as far as its own files say")


def script_names(entry_points: bytes) -> list[str]:
    """Return the names of the programs that an `entry_points.txt` declares.

    Raises:
        WheelFormatError: It cannot be read.
    """
    parser = _read_entry_points(entry_points)
    return [name for group in filter(parser.has_section, _SCRIPTS) for name in parser[group]]


def _wheel_version_faults(data: bytes) -> Iterator[str]:
    lines = data.decode(errors="replace").splitlines()
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("Wheel-Version:")]
    if len(found) != 1 or not re.fullmatch(r"1\.\d+", found[0]):
        yield f"WHEEL: Wheel-Version is {', '.join(found) or 'missing'}, installers know 1.0"


def _metadata_faults(data: bytes) -> Iterator[str]:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"METADATA: not UTF-8: {error}"
        return
    raw, _ = parse_email(data)
    for requirement in raw.get("requires_dist", ()):
        problem = _requirement_problem(requirement)
        if problem:
            yield f"METADATA: Requires-Dist: {requirement!r} is no requirement: {problem}"
    try:
        SpecifierSet(raw.get("requires_python", ""))
    except InvalidSpecifier as error:
        yield f"METADATA: Requires-Python: {error}"


def _requirement_problem(requirement: str) -> str:
    try:
        Requirement(requirement)
    except InvalidRequirement as error:
        return str(error).partition("\n")[0]
    return ""


def _entry_point_faults(data: bytes) -> Iterator[str]:
    try:
        parser = _read_entry_points(data)
    except WheelFormatError as error:
        yield str(error)
        return
    for group in filter(parser.has_section, _SCRIPTS):
        for name, reference in parser.items(group):
            if not re.fullmatch(r"[\w.-][\w. -]*", name) or name in (".", ".."):
                yield f"entry_points.txt: {name!r} cannot be the name of a program"
            if not _REFERENCE.fullmatch(reference.strip()):
                yield f"entry_points.txt: {name} = {reference!r} is not MODULE:FUNCTION"


def _read_entry_points(data: bytes) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(data.decode("utf-8"))
    except (UnicodeDecodeError, configparser.Error) as error:
        reason = str(error).partition("\n")[0]
        raise WheelFormatError(f"entry_points.txt: {reason}") from error
    return parser


def _data_faults(subject: CheckSubject) -> Iterator[str]:
    folder = f"{subject.archive.dist_info.removesuffix('.dist-info')}.data/"
    for path in sorted(subject.archive.files):
        scheme, slash, _ = path.removeprefix(folder).partition("/")
        if path.startswith(folder) and (not slash or scheme not in _SCHEMES):
            yield f"{path}: is in none of the folders {', '.join(_SCHEMES)}"
