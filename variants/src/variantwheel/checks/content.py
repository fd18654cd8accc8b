"""Checks of what a wheel says about itself: label, RECORD, tags, metadata, licence and size."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject
from variantwheel.core_metadata import static_metadata_problems, version_advice
from variantwheel.errors import WheelFormatError
from variantwheel.interpreters import abi_of, module_abis
from variantwheel.labelling import VARIANT_JSON, wheel_file_tags
from variantwheel.release_folder import ANY_MACHINE
from variantwheel.wheel_archive import parse_record, record_digest
from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.model import NULL_LABEL, Variant
from variantwheel_selector.variants_json import parse_variants_json
from variantwheel_selector.wheel_name import normalize_project

_LICENCE_NAME = re.compile(r"(LICEN[CS]E|COPYING|NOTICE)", re.IGNORECASE)
_VERSIONED_TAG = re.compile(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)")
# Those of SHAKE have no length of their own; wheels may not have SHA-224 either.
_STRONG_ALGORITHMS = hashlib.algorithms_guaranteed - {
    "md5", "sha1", "sha224", "sha3_224", "shake_128", "shake_256"
}  # fmt: skip
_LEGACY_TAGS = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def check_label(subject: CheckSubject) -> Finding:
    """Compare file name, variant.json and definition."""
    label = subject.archive.name.label
    if label is None:
        return judge("label", ["a plain wheel: its name ends in no variant label"], "")
    faults: list[str] = []
    if subject.definition is None:
        known = ", ".join(item.label for item in subject.project.definitions)
        faults.append(f"label {label!r} has no definition; defined are {known}")
    elif subject.machine == ANY_MACHINE:
        # A wheel without native code needs no machine; what it may not have is properties.
        if label != NULL_LABEL:
            faults.append(
                f"a wheel for any machine can only be the variant {NULL_LABEL!r}, not {label!r}, "
                "whose properties are of hardware; build its native code"
            )
    elif subject.platform is None:
        faults.append(f"{subject.definition.file.name} has no platform {subject.machine!r}")
    faults += _variant_json_faults(subject, label)
    variant = None if subject.definition is None else subject.definition.variant
    return judge("label", faults, _variant_words(variant))


def check_record(subject: CheckSubject) -> Finding:
    """Compare every file with RECORD."""
    files = subject.archive.files
    record = f"{subject.archive.dist_info}/RECORD"
    try:
        lines = list(parse_record(subject.archive.dist_info_file("RECORD")))
    except WheelFormatError as error:
        return judge("record", [str(error)], "")
    listed = [path for path, _, _ in lines]
    faults = [
        f"{path}: listed twice" for path in sorted({p for p in listed if listed.count(p) > 1})
    ]
    faults += [f"{path}: not listed" for path in sorted(set(files) - set(listed))]
    for path, digest, size in lines:
        if path not in files:
            faults.append(f"{path}: listed, and not there")
        elif path != record:
            faults += _entry_faults(path, files[path], digest, size)
    return judge("record", faults, f"{len(files)} files")


def check_tags(subject: CheckSubject) -> Finding:
    """Compare file name, WHEEL and what auditwheel finds in the native libraries."""
    name = subject.archive.name
    faults: list[str] = []
    wheel = f"{subject.archive.dist_info}/WHEEL"
    inside = wheel_file_tags(subject.archive.files.get(wheel, b""))
    if wheel not in subject.archive.files:
        faults.append(f"{wheel} is missing")
    elif sorted(inside) != sorted(name.tags()):
        faults.append(f"WHEEL says {', '.join(inside)}, the name {', '.join(name.tags())}")
    if subject.audit_problem:
        faults.append(subject.audit_problem)
    if subject.audit is None:
        return judge("tags", faults, f"{name.platform}, no native Linux code to compare with")
    audited = subject.audit
    symbols = ", ".join(audited.newest_symbols) or "no versioned symbols"
    faults += [
        f"the name promises {claimed}, auditwheel finds {audited.tag}: {symbols}{_advice(claimed)}"
        for claimed in name.platform.split(".")
        if not _covers(claimed, audited.tag)
    ]
    return judge("tags", faults, f"{name.platform}, auditwheel: {audited.tag}, {symbols}")


def check_metadata(subject: CheckSubject) -> Finding:
    """See whether the metadata is static and belongs to the release."""
    metadata = subject.metadata
    faults = [*static_metadata_problems(metadata), *identity_faults(subject)]
    return judge("metadata", faults, f"version {metadata.metadata_version}, static")


def identity_faults(subject: CheckSubject) -> list[str]:
    """Word in which way name of the file, METADATA and pyproject.toml are of unlike releases."""
    metadata, name = subject.metadata, subject.archive.name
    said = subject.project.contradiction(name.distribution, name.version)
    release = f"{name.distribution} {name.version}"
    faults = [f"the wheel is of {release}, and {said}; build it anew"] if said else []
    inside = (normalize_project(metadata.name), metadata.version)
    outside = (normalize_project(name.distribution), name.version)
    if inside == outside:
        return faults
    advice = version_advice(metadata, name.version)
    found = " ".join(inside).strip() or "nothing"
    return [*faults, f"METADATA is of {found}, the name of {' '.join(outside)}{advice}"]


def check_same_metadata(subject: CheckSubject, first: CheckSubject) -> Finding:
    """Compare METADATA with that of another variant of the release."""
    mine = subject.archive.dist_info_file("METADATA").decode(errors="replace").splitlines()
    other = first.archive.dist_info_file("METADATA").decode(errors="replace").splitlines()
    difference = sorted(set(mine) ^ set(other))
    faults = [f"differs from {first.file.name}: {line}" for line in difference[:5]]
    if not faults and mine != other:
        faults = [f"differs from {first.file.name} in the order of its lines"]
    return judge("same metadata", faults, f"as {first.file.name}")


def check_licence(subject: CheckSubject) -> Finding:
    """Look for the licence files."""
    prefix = f"{subject.archive.dist_info}/"
    inside = [path[len(prefix) :] for path in subject.archive.files if path.startswith(prefix)]
    faults = [
        f"METADATA names {path}, which is not in .dist-info/licenses"
        for path in subject.metadata.license_files
        if f"licenses/{path}" not in inside and path not in inside
    ]
    found = [path for path in inside if _LICENCE_NAME.match(path.rpartition("/")[2])]
    if not found:
        faults.append("no licence file in .dist-info")
    return judge("licence", faults, ", ".join(found))


def check_pythons(subject: CheckSubject, *, all_pythons: bool) -> Finding:
    """See whether there is a module for each CPython that the project declares.

    Args:
        subject: The wheel.
        all_pythons: Whether all are needed, or one will do.
    """
    check, pythons = "CPythons", subject.project.pythons
    if subject.machine == ANY_MACHINE:
        return skip(check, "for any machine: it has no modules")
    held = module_abis(subject.archive.files)
    missing = [abi for abi in map(abi_of, pythons.versions) if abi not in held]
    if held and not all_pythons:
        return judge(check, [], ", ".join(held))
    faults = [f"no module for {', '.join(missing)}, only for {', '.join(held)}"] if missing else []
    return judge(check, faults, ", ".join(held))


def check_size(subject: CheckSubject) -> Finding:
    """Compare the size with the budget."""
    size = subject.file.stat().st_size
    budget = None if subject.platform is None else subject.platform.size_budget_kb
    if budget is None:
        return skip("size", f"{size / 1024:.0f} KiB, no size-budget-kb")
    faults = [] if size <= budget * 1024 else [f"{size / 1024:.0f} KiB, the budget is {budget} KiB"]
    return judge("size", faults, f"{size / 1024:.0f} of {budget} KiB")


def _variant_json_faults(subject: CheckSubject, label: str) -> Iterator[str]:
    path = f"{subject.archive.dist_info}/{VARIANT_JSON}"
    if path not in subject.archive.files:
        yield f"{path} is missing"
        return
    try:
        info = parse_variants_json(subject.archive.files[path], VARIANT_JSON)
    except VariantsJsonError as error:
        yield str(error)
        return
    if list(info.variants) != [label]:
        yield f"{VARIANT_JSON} is of {', '.join(info.variants)}, the name says {label}"
        return
    if subject.definition is not None and info.variants[label] != subject.definition.variant:
        yield (
            f"{VARIANT_JSON} says {_variant_words(info.variants[label])}, "
            f"{subject.definition.file.name} {_variant_words(subject.definition.variant)}"
        )
    if info.namespaces != subject.project.namespaces:
        yield f"{VARIANT_JSON} has another order of namespaces: {', '.join(info.namespaces)}"
    if info.providers != subject.project.providers:
        yield f"{VARIANT_JSON} names other providers than the project"


def _variant_words(variant: Variant | None) -> str:
    if variant is None or not variant.properties:
        return "no properties"
    return ", ".join(str(item) for item in variant.properties)


def _entry_faults(path: str, data: bytes, digest: str, size: str) -> Iterator[str]:
    algorithm, _, expected = digest.partition("=")
    if algorithm not in _STRONG_ALGORITHMS:
        yield f"{path}: RECORD has no strong digest: {digest!r}"
    elif record_digest(data, algorithm) != expected:
        yield f"{path}: its bytes are not those that RECORD lists"
    if size and size != str(len(data)):
        yield f"{path}: has {len(data)} bytes, RECORD says {size}"


def _covers(claimed: str, audited: str) -> bool:
    """Tell whether a platform tag asks for as much of the system as auditwheel found needed.

    >>> _covers("manylinux_2_34_x86_64", "manylinux_2_17_x86_64")
    True
    >>> _covers("manylinux_2_17_x86_64", "manylinux_2_34_x86_64")
    False
    >>> _covers("linux_x86_64", "manylinux_2_34_x86_64")
    False
    """
    claim, need = _parse_tag(claimed), _parse_tag(audited)
    if claim is None or need is None:
        return claimed == audited
    return (claim[0], claim[2]) == (need[0], need[2]) and claim[1] >= need[1]


def _advice(claimed: str) -> str:
    if not claimed.startswith("linux_"):
        return ""
    return (
        f"; {claimed} asks nothing of the system, so that ones which cannot load the wheel choose "
        "it: let `auditwheel repair` retag the plain wheel before `variantwheel label`, or make it "
        "with `variantwheel build`"
    )


def _parse_tag(platform: str) -> tuple[str, tuple[int, int], str] | None:
    legacy, _, machine = platform.partition("_")
    if legacy in _LEGACY_TAGS:
        return "manylinux", _LEGACY_TAGS[legacy], machine
    found = _VERSIONED_TAG.fullmatch(platform)
    return (found[1], (int(found[2]), int(found[3])), found[4]) if found else None
