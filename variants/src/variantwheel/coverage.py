"""Which variant of a release each known machine would get, without installing anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel.ci_settings import CiSettings, python_version
from variantwheel.errors import ReleaseFolderError
from variantwheel_selector.assumptions import NOTHING_ASSUMED, Assumed, Assumptions
from variantwheel_selector.machine import Machine, PythonFacts
from variantwheel_selector.machine_folder import MACHINE_FILE, read_machine
from variantwheel_selector.providers import aarch64, amd, nvidia, release_support, x86_64
from variantwheel_selector.record import replace
from variantwheel_selector.resolve import resolve
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.variants_json import VariantsInfo
from variantwheel_selector.wheel_name import WheelName

_OWN_ABI = re.compile(r"cp3[0-9]+t?")
_GLIBC = "glibc 2.36"
_OLD_GLIBC = "glibc 2.17"
_DRIVERS = ((11, 4), (11, 8), (12, 4), (13, 0))
_CAPABILITIES = ((7, 0), (8, 0), (9, 0), (10, 0), (12, 0))
_TARGETS = ("gfx906", "gfx90a", "gfx942", "gfx1100")
_ROCM = (6, 3)


@dataclass(frozen=True)
class KnownMachine:
    """A machine to try a release with.

    Attributes:
        name: How the table calls it.
        machine: Its facts.
        assumptions: Facts that are stated rather than captured.
    """

    name: str
    machine: Machine
    assumptions: Assumptions = NOTHING_ASSUMED


@dataclass(frozen=True)
class Coverage:
    """What one machine gets.

    Attributes:
        name: The machine.
        choices: Label by interpreter; none where no variant fits.
    """

    name: str
    choices: Mapping[str, str | None] = field(default_factory=dict)


def coverage(
    info: VariantsInfo,
    filenames: Sequence[str],
    machines: Iterable[KnownMachine],
    interpreters: Sequence[str],
) -> list[Coverage]:
    """Judge a release for machines and interpreters.

    Args:
        info: What the labels need.
        filenames: The release's wheels.
        machines: All machines.
        interpreters: As wheel tags spell them, `cp312` and `cp314t`.
    """
    table: list[Coverage] = []
    for known in machines:
        choices: dict[str, str | None] = {}
        support = release_support(info, known.machine, assumptions=known.assumptions)
        for interpreter in interpreters:
            machine = replace(known.machine, python=_python(interpreter))
            winner = resolve(info, filenames, support, supported_tags(machine)).winner
            choices[interpreter] = None if winner is None else winner.label
        table.append(Coverage(known.name, choices))
    return table


def covered_interpreters(filenames: Iterable[str], ci: CiSettings) -> tuple[str, ...]:
    """Choose the columns: what the wheels are tagged with and what the project tries them with.

    >>> covered_interpreters(["a-1-cp311-cp311-any-null.whl"], CiSettings())
    ('cp311',)
    """
    tagged: set[str] = set()
    for name in map(WheelName.from_str, filenames):
        # Of an ABI for several interpreters the tag names only the oldest.
        tagged |= {abi for abi in name.abi.split(".") if _OWN_ABI.fullmatch(abi)}
    if not tagged or ci != CiSettings():
        tagged |= set(ci.test_interpreters)
    return tuple(sorted(tagged, key=lambda abi: (int(abi.removesuffix("t")[3:]), abi)))


def captured_machines(folders: Iterable[Path]) -> Iterator[KnownMachine]:
    """Read the captured machines in some folders, each a machine folder or a folder of such.

    Raises:
        ReleaseFolderError: A folder holds none.
    """
    for folder in folders:
        found = [folder] if (folder / MACHINE_FILE).is_file() else sorted(folder.glob("*/"))
        names = [place for place in found if (place / MACHINE_FILE).is_file()]
        if not names:
            raise ReleaseFolderError(
                f"{folder}: holds no captured machine; make one with `variantwheel capture DIR`"
            )
        for place in names:
            yield KnownMachine(place.name, read_machine(place))


def typical_machines(namespaces: Iterable[str]) -> Iterator[KnownMachine]:
    """Make machines out of stated facts: those that differ in the namespaces of a release."""
    wanted = set(namespaces)
    # CPU levels above the cap of the selector are chosen only when they are asked for.
    for level in x86_64.LEVEL_FLAGS if x86_64.NAMESPACE in wanted else ("v1",):
        yield KnownMachine(f"x86-64-{level}", _linux("x86_64"), _cpu(level))
    for version in aarch64.VERSION_FEATURES if aarch64.NAMESPACE in wanted else ("8a",):
        yield KnownMachine(f"aarch64 {version}", _linux("aarch64"), _cpu(version))
    yield KnownMachine(f"x86-64-v3, {_OLD_GLIBC}", _linux("x86_64", _OLD_GLIBC), _cpu("v3"))
    yield KnownMachine("x86-64-v3, musl 1.2", _linux("x86_64", "musl 1.2"), _cpu("v3"))
    if nvidia.NAMESPACE in wanted:
        for cuda in _DRIVERS:
            for sm in _CAPABILITIES:
                name = f"CUDA {_dotted(cuda)}, compute capability {_dotted(sm)}"
                stated = replace(_cpu("v3"), cuda=Assumed(cuda, name), sm=Assumed((sm,), name))
                yield KnownMachine(name, _linux("x86_64"), stated)
    if amd.NAMESPACE in wanted:
        for gfx in _TARGETS:
            name = f"ROCm {_dotted(_ROCM)}, {gfx}"
            stated = replace(_cpu("v3"), gfx=Assumed((gfx,), name), rocm=Assumed(_ROCM, name))
            yield KnownMachine(name, _linux("x86_64"), stated)


def coverage_json(table: Iterable[Coverage]) -> dict[str, object]:
    """Return the table as a JSON object."""
    machines = [{"machine": item.name, "labels": dict(item.choices)} for item in table]
    return {"schema": 1, "machines": machines}


def _linux(architecture: str, libc: str = _GLIBC) -> Machine:
    return Machine("linux", architecture, 64, libc, _python("cp312"))


def _cpu(level: str) -> Assumptions:
    return Assumptions(cpu=Assumed(level, "a typical machine"))


def _python(interpreter: str) -> PythonFacts:
    name = interpreter.removesuffix("t")
    return PythonFacts(name, f"{python_version(name)}.0", (interpreter,))


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
