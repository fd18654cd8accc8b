"""What the METADATA in a conda package requires of the machine and Python that it is for."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from variantwheel.conda_package import CondaPackage
from variantwheel.conda_variants import MACHINES, CondaBuild


def requirement_faults(package: CondaPackage, build: CondaBuild | None) -> Iterator[str]:
    """Word which requirements of METADATA are no dependency of the package.

    Names are compared in their normal form, and versions not at all: conda's packages have their
    own. Nor are those known that conda calls otherwise.

    Args:
        package: The package, with one distribution in it.
        build: Its build string. Without a Python in it, requirements with a marker are left out.
    """
    present = {canonicalize_name(_package_name(spec)) for spec in package.texts("depends")}
    data = next((package.files[p] for p in package.files if p.endswith(".dist-info/METADATA")), b"")
    raw, _ = parse_email(data)
    for text in raw.get("requires_dist", ()):
        try:
            requirement = Requirement(text)
            needed = _holds(requirement.marker, package, build)
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName) as error:
            reason = str(error).partition("\n")[0]
            yield f"METADATA requires {text!r}, which is no requirement: {reason}"
            continue
        if needed and canonicalize_name(requirement.name) not in present:
            yield f"lacks {requirement.name!r}, which METADATA requires"


def _package_name(spec: str) -> str:
    return spec.split(" ", 1)[0].split("[", 1)[0]


def _holds(marker: Marker | None, package: CondaPackage, build: CondaBuild | None) -> bool:
    """Tell whether a marker holds where the package is installed, without any extra."""
    if marker is None:
        return True
    if build is None or not build.python:
        return False
    digits = build.python.removeprefix("py")
    version, subdir = f"{digits[0]}.{digits[1:]}", package.text("subdir")
    return marker.evaluate(
        {
            "extra": "",
            "implementation_name": "cpython",
            "implementation_version": f"{version}.0",
            "os_name": "posix",
            "platform_machine": MACHINES.get(subdir, subdir),
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{version}.0",
            "python_version": version,
            "sys_platform": "linux",
        }
    )
