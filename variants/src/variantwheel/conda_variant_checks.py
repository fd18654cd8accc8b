"""Checks of what a conda package says about its variant: build string, dependencies, record."""

from __future__ import annotations

from variantwheel.checks.content import identity_faults
from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject
from variantwheel.conda_package import CondaPackage
from variantwheel.conda_requirements import requirement_faults
from variantwheel.conda_variants import (
    MPI_CHOICES,
    NO_MPI,
    CondaBuild,
    hardware_dependencies,
    parse_build,
)
from variantwheel.interpreters import module_abis
from variantwheel.labelling import VARIANT_JSON
from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.variants_json import parse_variants_json

_GUARDS = (
    "__cuda", "cuda-version", "_x86_64-microarch-level", "_aarch64-version-level", "__archspec",
)  # fmt: skip
_COUNTERS = 50
"""Build counters below this keep one variant's rebuild from overtaking another variant."""


def check_build_string(package: CondaPackage, build: CondaBuild | None) -> Finding:
    """Compare build string, build number and priority."""
    check, text = "build string", package.text("build")
    if build is None:
        form = "MPI_HARDWARE_pyXYhHASH_NUMBER"
        return judge(check, [f"{text!r} is not of the form {form}"], "")
    faults: list[str] = []
    if build.number != package.number:
        faults.append(f"{text} ends in {build.number}, the build number is {package.number}")
    counter = build.number - build.offset
    if not 0 <= counter < _COUNTERS:
        faults.append(
            f"build number {build.number}: {build.hardware} with {build.mpi} starts at "
            f"{build.offset}, and a counter of {counter} is not between 0 and {_COUNTERS - 1}: "
            "one variant would take another's place"
        )
    return judge(check, faults, f"label {build.label}, {build.mpi}, counter {counter}")


def check_dependencies(package: CondaPackage, build: CondaBuild | None) -> Finding:
    """Compare the dependencies with what variant, MPI and metadata ask for."""
    depends, faults = package.texts("depends"), []
    names = {spec.split(" ", 1)[0].split("[", 1)[0]: spec for spec in depends}
    wanted = hardware_dependencies(build.hardware) if build is not None else ()
    faults += [f"lacks {spec!r}" for spec in wanted if spec not in depends]
    allowed = {spec.split(" ", 1)[0] for spec in wanted}
    faults += [
        f"{names[guard]!r} keeps it from machines that it is built for"
        for guard in _GUARDS
        if guard in names and guard not in allowed
    ]
    if build is not None and build.python:
        abi = build.python.removeprefix("py")
        if not names.get("python_abi", "").endswith(f"*_cp{abi}"):
            faults.append(
                f"lacks python_abi of {build.python}, so that any Python would install it"
            )
    if build is not None and build.mpi != NO_MPI and build.mpi not in names:
        faults.append(f"lacks {build.mpi!r}, which it is built for")
    faults += [
        f"depends on {names[mpi]!r}, although it is built for {build.mpi}"
        for mpi in MPI_CHOICES
        if build is not None and mpi in names and mpi != build.mpi
    ]
    faults += requirement_faults(package, build)
    return judge("dependencies", faults, ", ".join(depends))


def check_variant(subject: CheckSubject) -> Finding:
    """Compare the recorded variant with the build string's label and its definition."""
    label = subject.archive.name.label
    if subject.definition is None:
        known = ", ".join(item.label for item in subject.project.definitions)
        fault = f"label {label!r} has no definition, so that nothing says what its code needs"
        return judge("variant", [f"{fault}; defined are {known}"], "")
    faults: list[str] = []
    if subject.platform is None:
        faults.append(f"{subject.definition.file.name} has no platform {subject.machine!r}")
    data = subject.archive.files.get(f"{subject.archive.dist_info}/{VARIANT_JSON}")
    if data is None:
        faults.append(f"{VARIANT_JSON} is missing, so that no one can compare it with a machine")
        return judge("variant", faults, "")
    try:
        variants = parse_variants_json(data, VARIANT_JSON).variants
    except VariantsJsonError as error:
        return judge("variant", [*faults, str(error)], "")
    if list(variants) != [label]:
        faults.append(f"{VARIANT_JSON} is of {', '.join(variants)}, the build string of {label}")
    elif variants[str(label)] != subject.definition.variant:
        faults.append(f"{VARIANT_JSON} differs from {subject.definition.file.name}")
    return judge("variant", faults, f"{label}, as defined")


def check_identity(subject: CheckSubject) -> Finding:
    """See whether the distribution in the package is of the package's name and version."""
    name = subject.archive.name
    return judge("metadata", identity_faults(subject), f"{name.distribution} {name.version}")


def check_module(subject: CheckSubject, build: CondaBuild | None) -> Finding:
    """See whether there is a module for the package's Python, where wheels have one for each."""
    check = "CPythons"
    if not subject.project.pythons.versions or build is None or not build.python:
        return skip(check, "the project or the build string names none")
    held, abi = module_abis(subject.archive.files), f"cp{build.python.removeprefix('py')}"
    present = ", ".join(held) or "none"
    faults = [] if {abi, f"{abi}t"} & set(held) else [f"no module for {abi}; there is {present}"]
    return judge(check, faults, present)


def check_metapackage(package: CondaPackage, name: str) -> Finding:
    """See whether a metapackage is empty and pins one build exactly."""
    faults = [f"{path}: a metapackage holds no files" for path in sorted(package.files)]
    build = parse_build(package.text("build"))
    pins = [spec.split(" ") for spec in package.texts("depends")]
    good = (
        len(pins) == 1
        and len(pins[0]) == 3
        and pins[0][:2] == [name, f"=={package.text('version')}"]
        and (pinned := parse_build(pins[0][2])) is not None
        and build is not None
        and (pinned.mpi, pinned.hardware, pinned.number)
        == (build.mpi, build.hardware, build.number)
    )
    if not good:
        faults.append(
            f"depends on {', '.join(package.texts('depends')) or 'nothing'}, not exactly on the "
            f"build of {name} for the same MPI and hardware"
        )
    return judge("metapackage", faults, package.texts("depends")[0] if pins else "")
