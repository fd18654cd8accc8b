"""Whether a release holds what its definitions promise, on each machine and for each CPython."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from variantwheel.ci_settings import python_version
from variantwheel.errors import IncompleteReleaseError
from variantwheel.interpreters import abi_of, module_abis
from variantwheel.project import Project
from variantwheel.release_folder import ANY_MACHINE, machine_of
from variantwheel.selector_sdist import Payload
from variantwheel.wheel_archive import wheel_name_of
from variantwheel_selector.model import NULL_LABEL

_OWN_ABI = re.compile(r"cp3[0-9]+t?")
_PYTHON_TAG = re.compile(r"(cp|py)3([0-9]*)")


@dataclass(frozen=True)
class _Offer:
    """What one wheel offers.

    Attributes:
        label: Its label.
        machine: What it is for, `any` included.
        tags: Its pairs of Python tag and ABI tag.
        modules: The ABIs of the extension modules in it that are for one CPython each.
    """

    label: str
    machine: str
    tags: frozenset[tuple[str, str]]
    modules: frozenset[str]

    def interpreters(self) -> set[str]:
        """Name the CPythons that it is evidently for, as ABI tags spell them."""
        own = {abi for _, abi in self.tags if _OWN_ABI.fullmatch(abi)}
        oldest = {python for python, abi in self.tags if abi == "abi3"}
        return own | oldest | self.modules

    def serves(self, interpreter: str) -> bool:
        if self.modules:
            return interpreter in self.modules
        return any(_takes(interpreter, python, abi) for python, abi in self.tags)


def missing_variants(payload: Payload, project: Project) -> list[str]:
    """Name what the definitions promise and is not there, for the machines and CPythons at hand.

    At hand is what at least one of the release's wheels is for: a label that lacks a CPython which
    another label has would leave that CPython's users without it, and without a word.
    """
    offers = [_read_offer(wheel) for wheel in payload.wheels]
    missing: list[str] = []
    for machine in sorted({offer.machine for offer in offers} - {ANY_MACHINE}):
        mine = [offer for offer in offers if offer.machine in (machine, ANY_MACHINE)]
        interpreters = sorted({item for offer in mine for item in offer.interpreters()}, key=_age)
        for definition in project.for_machine(machine):
            own = [offer for offer in mine if offer.label == definition.label]
            lacking = [item for item in interpreters if not any(o.serves(item) for o in own)]
            if not own:
                missing.append(f"{definition.label} for {machine}")
            elif lacking:
                missing.append(f"{definition.label} for {machine} on {', '.join(lacking)}")
    return missing


def check_complete(payload: Payload, project: Project) -> None:
    """Refuse a release that lacks variants.

    Raises:
        IncompleteReleaseError: Names what is missing.
    """
    missing = missing_variants(payload, project)
    if missing:
        raise IncompleteReleaseError(
            f"{payload.name} {payload.version} lacks variants that its definitions promise:\n"
            + "".join(f"  {item}\n" for item in missing)
            + "build them, or release without them: --allow-partial"
        )


def absent_altogether(payload: Payload, project: Project) -> list[str]:
    """Word what no wheel of the release is for, although the project declares it.

    These are machines that the definitions name, whose wheels may be released from elsewhere, and
    CPythons of `[tool.variantwheel.pythons]` or of `interpreters` in `[tool.variantwheel.ci]`.
    """
    offers = [_read_offer(wheel) for wheel in payload.wheels]
    machines = {offer.machine for offer in offers}
    everywhere = {offer.label for offer in offers if offer.machine == ANY_MACHINE}
    declared = {item.machine for each in project.definitions for item in each.platforms}
    words: list[str] = []
    for machine in sorted(declared - machines):
        labels = [item.label for item in project.for_machine(machine)]
        lacking = [label for label in labels if label not in everywhere]
        if lacking:
            others = "" if len(lacking) == len(labels) else " but for any machine"
            words.append(f"no wheel for {machine}{others}; defined for it: {', '.join(lacking)}")
    words += [
        f"no wheel has a module for CPython {version}, which the project declares"
        for version in project.pythons.versions
        if not any(offer.serves(abi_of(version)) for offer in offers)
    ]
    return words + [
        f"no wheel is for CPython {python_version(interpreter)}: {interpreter} stands among the "
        "interpreters of [tool.variantwheel.ci], which wheels are built with"
        for interpreter in project.ci.declared
        if python_version(interpreter) not in project.pythons.versions
        and not any(offer.serves(interpreter) for offer in offers)
    ]


def without_fallback(payload: Payload) -> list[str]:
    """Word for which machines and CPythons the release has variants, and no `null` among them."""
    offers = [_read_offer(wheel) for wheel in payload.wheels]
    words: list[str] = []
    for machine in sorted({offer.machine for offer in offers}):
        mine = [offer for offer in offers if offer.machine in (machine, ANY_MACHINE)]
        null = [offer for offer in mine if offer.label == NULL_LABEL]
        pythons = sorted({item for offer in mine for item in offer.interpreters()}, key=_age)
        lacking = [item for item in pythons if not any(offer.serves(item) for offer in null)]
        if not null or lacking:
            on = f" on {', '.join(lacking)}" if null else ""
            words.append(
                f"no variant {NULL_LABEL!r} for {machine}{on}: users whose hardware none of the "
                "other variants fits get nothing, and an error; define and build it"
            )
    return words


def _read_offer(wheel: Path) -> _Offer:
    name = wheel_name_of(wheel)
    with zipfile.ZipFile(wheel) as archive:
        modules = module_abis(archive.namelist())
    return _Offer(
        label=str(name.label),
        machine=machine_of(name),
        tags=frozenset(
            (python, abi) for python in name.python.split(".") for abi in name.abi.split(".")
        ),
        modules=frozenset(modules),
    )


def _takes(interpreter: str, python: str, abi: str) -> bool:
    """Tell whether an interpreter takes wheels of a tag.

    >>> [_takes(item, "cp311", "abi3") for item in ("cp310", "cp311", "cp313", "cp313t")]
    [False, True, True, False]
    >>> [_takes("cp313t", "py3", "none"), _takes("cp313", "cp312", "none")]
    [True, False]
    """
    found = _PYTHON_TAG.fullmatch(python)
    if abi not in ("abi3", "none") or found is None:
        return abi == interpreter
    oldest = int(found[2] or 0)
    if abi == "abi3":
        return not interpreter.endswith("t") and _age(interpreter)[0] >= oldest
    return _age(interpreter)[0] == oldest or (found[1] == "py" and _age(interpreter)[0] > oldest)


def _age(interpreter: str) -> tuple[int, str]:
    """Order interpreters by their version."""
    return int(interpreter.removesuffix("t")[3:]), interpreter
