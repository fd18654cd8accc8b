"""The checks that a conda package passes before it is released; what it claims is not believed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from variantwheel.checks import native
from variantwheel.checks.device import check_device_code
from variantwheel.checks.libraries import check_libraries
from variantwheel.checks.report import Finding, WheelReport, judge, skip
from variantwheel.conda_file_checks import check_paths, check_scripts
from variantwheel.conda_package import (
    CondaPackage,
    build_hash,
    hashed_values,
    read_conda_package,
)
from variantwheel.conda_recording import distribution_name
from variantwheel.conda_subject import as_subject
from variantwheel.conda_variant_checks import (
    check_build_string,
    check_dependencies,
    check_identity,
    check_metapackage,
    check_module,
    check_variant,
)
from variantwheel.conda_variants import parse_build
from variantwheel.errors import CondaFormatError, WheelFormatError
from variantwheel.project import Project

_NATIVE_CHECKS = (
    check_libraries,
    native.check_machine,
    native.check_exports,
    native.check_level_folders,
    native.check_isa_notes,
    native.check_instructions,
    check_device_code,
)
# What conda has packages of: a copy inside this one would be loaded beside them.
_FOREIGN_LIBRARY = re.compile(
    r"lib(stdc\+\+|gcc_s|gomp|mpi|mpich|nccl|rccl|cudart|ucp|ucs|fabric|hwloc|pmix)[^/]*\.so[.\d]*"
)
_METAPACKAGE = re.compile(r"-(gpu|rocm)")
_MOST_FAULTS = 5


def check_conda_packages(files: Sequence[Path], project: Project) -> list[WheelReport]:
    """Check conda packages one by one, and that they do not overlap.

    Args:
        files: Packages of the project, and others that are to be installed beside them.
        project: What they should be variants of.

    Raises:
        ReleaseToolError: They cannot be unpacked here.
    """
    found = [_read(file) for file in files]
    packages = [item for item in found if isinstance(item, CondaPackage)]
    return [
        WheelReport(item.file.name, tuple(_findings(item, packages, project)))
        if isinstance(item, CondaPackage)
        else item
        for item in found
    ]


def _read(file: Path) -> CondaPackage | WheelReport:
    try:
        return read_conda_package(file)
    except CondaFormatError as error:
        return WheelReport(file.name, (judge("archive", [str(error)], ""),))


def _findings(
    package: CondaPackage, packages: Sequence[CondaPackage], project: Project
) -> Iterator[Finding]:
    yield check_name(package)
    yield check_hash(package)
    yield check_paths(package)
    yield check_overlap(package, packages)
    name = distribution_name(project)
    build = parse_build(package.text("build"))
    if package.text("name") == name:
        yield check_build_string(package, build)
        yield check_licence(package)
        yield check_vendored(package, name)
        yield check_dependencies(package, build)
        try:
            subject = as_subject(package, project, build)
        except WheelFormatError as error:
            yield judge("variant", [str(error)], "")
            return
        yield check_identity(subject)
        yield check_scripts(package, subject)
        yield check_variant(subject)
        yield check_module(subject, build)
        yield from (check(subject) for check in _NATIVE_CHECKS)
    elif _METAPACKAGE.fullmatch(package.text("name").removeprefix(name)):
        yield check_build_string(package, build)
        yield check_metapackage(package, name)


def check_name(package: CondaPackage) -> Finding:
    """Compare the file name with the index."""
    index = package.index
    stem = f"{index.get('name')}-{index.get('version')}-{index.get('build')}"
    faults = []
    if not package.file.name.startswith(f"{stem}."):
        faults.append(f"info/index.json is of {stem}")
    if package.texts("track_features") or package.text("track_features"):
        faults.append("has track_features, which make solvers prefer older versions")
    return judge("name", faults, f"{stem} for {package.text('subdir')}")


def check_hash(package: CondaPackage) -> Finding:
    """Recompute the hash in the build string from what went into it."""
    check = "build hash"
    shown = re.search(r"h([0-9a-f]{7})(?:_|$)", package.text("build"))
    if shown is None:
        return skip(check, f"the build string {package.text('build')!r} shows none")
    try:
        found = build_hash(package)
        used = hashed_values(package)
    except CondaFormatError as error:
        return judge(check, [str(error)], "")
    faults: list[str] = []
    if found is None:
        faults.append("info/hash_input.json is missing")
    elif found != shown[1]:
        faults.append(f"the build string shows {shown[1]}, info/hash_input.json gives {found}")
    platform = used.get("target_platform")
    if platform is not None and platform != package.text("subdir"):
        faults.append(f"hashed for {platform}, the package is for {package.text('subdir')}")
    depends = package.texts("depends")
    faults += [
        f"hashed with {spec!r}, which is no dependency"
        for key, spec in used.items()
        if key.startswith("__") and spec not in depends
    ]
    return judge(check, faults, f"{found}, of {', '.join(sorted(used))}")


def check_overlap(package: CondaPackage, packages: Sequence[CondaPackage]) -> Finding:
    """See whether two of the packages, installed together, write the same file."""
    mine = _installed_paths(package)
    faults: list[str] = []
    others = 0
    for other in packages:
        together = other.text("subdir") in (package.text("subdir"), "noarch")
        together |= package.text("subdir") == "noarch"
        if other.text("name") == package.text("name") or not together:
            continue  # variants of one package are never installed together
        others += 1
        shared = sorted(mine & _installed_paths(other))
        faults += [f"{path}: also in {other.file.name}" for path in shared[:_MOST_FAULTS]]
    if not others:
        return skip("overlap", "no other package was given")
    return judge("overlap", faults, f"none with {others} other packages")


def check_licence(package: CondaPackage) -> Finding:
    """Look for the licence and its text."""
    texts = sorted(path for path in package.info if path.startswith("info/licenses/"))
    faults = [] if texts else ["no licence text in info/licenses"]
    if not package.text("license") or not package.about.get("summary"):
        faults.append("info/index.json has no license, or info/about.json no summary")
    return judge("licence", faults, f"{package.text('license')}, {', '.join(texts)}")


def check_vendored(package: CondaPackage, name: str) -> Finding:
    """See whether the package brings what other packages provide."""
    faults = [
        f"{path}: belongs to another package"
        for path in sorted(package.files)
        if _FOREIGN_LIBRARY.fullmatch(path.rpartition("/")[2]) or path.endswith((".a", ".la"))
    ]
    others = sorted(
        {
            folder
            for path in package.files
            if (match := re.search(r"site-packages/([^/]+)\.dist-info/", path))
            and (folder := match[1].partition("-")[0].replace("_", "-")) != name
        }
    )
    faults += [f"holds the distribution {other} as well" for other in others]
    return judge("vendored", faults, "nothing of other packages")


def _installed_paths(package: CondaPackage) -> set[str]:
    """Return where files end up, whichever Python's `site-packages` that is."""
    found: set[str] = set()
    for path in (*package.files, *package.links):
        inside = re.sub(r"^lib/python[\d.]+/site-packages/", "site-packages/", path)
        found.add(inside)
    return found
