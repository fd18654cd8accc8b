"""A conda package seen as the wheel that was installed into it, for the checks of wheels."""

from __future__ import annotations

import re

from variantwheel.checks.subject import CheckSubject
from variantwheel.conda_package import CondaPackage
from variantwheel.conda_recording import distribution_name
from variantwheel.conda_variants import MACHINES, CondaBuild
from variantwheel.core_metadata import parse_core_metadata
from variantwheel.errors import WheelFormatError
from variantwheel.native_library import read_native_libraries
from variantwheel.project import Project
from variantwheel.wheel_archive import WheelArchive
from variantwheel_selector.wheel_name import WheelName, escape_project


def as_subject(package: CondaPackage, project: Project, build: CondaBuild | None) -> CheckSubject:
    """Take a package for a wheel that also holds, as `$PREFIX/...`, what is not in `site-packages`.

    Args:
        package: Of the project, for one Python.
        project: What it should be a variant of.
        build: Its build string; none if that has another form.

    Raises:
        WheelFormatError: The project is not installed in it, or a library is damaged.
    """
    name, version = escape_project(distribution_name(project)), package.text("version")
    digits = "" if build is None else build.python.removeprefix("py")
    version_here = rf"{digits[0]}\.{digits[1:]}" if digits else r"[\d.]+"
    site = re.compile(rf"lib/python{version_here}t?/site-packages/")
    files = {
        path[match.end() :] if (match := site.match(path)) else f"$PREFIX/{path}": data
        for path, data in package.files.items()
    }
    dist_info = f"{name}-{version}.dist-info"
    machine = MACHINES.get(package.text("subdir"), package.text("subdir"))
    label = None if build is None else build.label
    python = f"cp{digits}" if digits else "py3"
    archive = WheelArchive(
        WheelName(name, version, "", python, python, f"linux_{machine}", label), dist_info, files
    )
    if f"{dist_info}/METADATA" not in files:
        raise WheelFormatError(f"{package.file}: no {dist_info}/METADATA in its site-packages")
    definition = next((item for item in project.definitions if item.label == label), None)
    return CheckSubject(
        file=package.file,
        archive=archive,
        project=project,
        definition=definition,
        platform=None if definition is None else definition.platform_for(machine),
        machine=machine,
        metadata=parse_core_metadata(archive.dist_info_file("METADATA")),
        libraries=tuple(read_native_libraries(files)),
        audit=None,
        audit_problem="",
    )
