"""`payload/prepared.json` of a selector sdist: sound wheels, and answers for ordinary machines.

To find out what fits takes less time than to compile the program that does, as each installation
from an sdist must. So the selector is asked here, for x86-64 Linux without any sign of a GPU, with
CPython as it is usually built and nothing stated by the user. Each answer stands with what it takes
for granted, and is valid for all machines of which that is true: the selector was asked for the
extremes of each kind of machine, for every version of Python and of glibc.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from variantwheel_selector.decision import DECISION_FILE, Decision
from variantwheel_selector.front_end import VARIABLES
from variantwheel_selector.gpu_signs import TOOLKIT
from variantwheel_selector.json_text import render_json
from variantwheel_selector.machine import AUXV, CPUINFO, DEVICE_FILES, Machine, PythonFacts
from variantwheel_selector.manifest import Manifest, PayloadWheel, render_manifest
from variantwheel_selector.parse.auxv import X86_HWCAP_BITS
from variantwheel_selector.payload import check_wheel, open_payload
from variantwheel_selector.providers.x86_64 import LEVEL_FLAGS
from variantwheel_selector.record import replace
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import Settings

PYTHONS = range(8, 21)
"""Minor versions of CPython 3 for which answers are prepared."""
GLIBCS = range(17, 61)
"""Minor versions of glibc 2 for which answers are prepared."""

_ORDINARY = ("v1", "v2", "v3")
_NO_DEVICES = ("", f"{TOOLKIT} present\n")
"""What `without_gpu` may say."""


@dataclass(frozen=True)
class _Kind:
    """Machines that get the same answer.

    Attributes:
        flags: Of the CPU, that are there.
        without_flags: Of the CPU, that are not.
        device_files: What is seen of GPUs, one of these texts.
    """

    flags: frozenset[str]
    without_flags: frozenset[str]
    device_files: tuple[str, ...]


def render_prepared(manifest: Manifest, folder: Path) -> str:
    """Write the file's text; deterministic.

    Args:
        manifest: Of the sdist.
        folder: The unpacked sdist, all of whose wheels are checked as for an installation.

    Raises:
        PayloadError: A wheel is not sound.
    """
    return render_json(
        {"answers": prepared_answers(manifest), "checked": _checked(manifest, folder)}
    )


def prepared_answers(manifest: Manifest) -> list[dict[str, object]]:
    """Return the answers for a release; none where nothing of it fits an ordinary machine."""
    release = Release.from_manifest(manifest)
    answers: list[dict[str, object]] = []
    for kind in _kinds(release):
        for pythons, oldest in _alike(release, kind):
            machine = _machine(pythons[-1], GLIBCS[-1], kind)
            selection = select(release, Settings(), machine)
            winner = selection.resolution.winner
            if winner is None:
                continue
            wheel = next(item for item in manifest.wheels if item.filename == winner.filename)
            answers.append(
                {
                    "machine": machine.machine,
                    "pythons": [f"cp3{minor}" for minor in pythons],
                    "glibc": [oldest, GLIBCS[-1]],
                    "flags": sorted(kind.flags),
                    "without_flags": sorted(kind.without_flags),
                    "device_files": list(kind.device_files),
                    **_handed_over(wheel),
                    "decision": selection.decision(manifest.selector_version).to_json(),
                }
            )
    return answers


def _checked(manifest: Manifest, folder: Path) -> dict[str, object]:
    """Return the hashes of the manifest and of the wheels, which were found to agree with it."""
    for wheel in manifest.wheels:
        with open_payload(folder / wheel.path, wheel) as file:
            check_wheel(file, wheel, manifest, wheel.name.tags())
    return {
        "manifest": hashlib.sha256(render_manifest(manifest).encode("utf-8")).hexdigest(),
        "wheels": sorted(wheel.sha256 for wheel in manifest.wheels),
    }


def _handed_over(wheel: PayloadWheel) -> dict[str, object]:
    return {
        "filename": str(wheel.name.with_label(None)),
        "path": wheel.path,
        "ranges": [list(item) for item in wheel.ranges or ((0, wheel.size),)],
        "size": wheel.size,
        "dist_info": wheel.name.dist_info,
        "decision_file": DECISION_FILE,
        "index_variables": sorted(VARIABLES),
    }


def _alike(release: Release, kind: _Kind) -> Iterator[tuple[list[int], int]]:
    """Give the versions of Python that get the same answer, each with the oldest glibc for it.

    The versions of glibc from the oldest to the newest one get the same answer too.
    """
    found: dict[int, Decision] = {
        minor: _decided(release, minor, GLIBCS[-1], kind) for minor in PYTHONS
    }
    while found:
        first = min(found)
        pythons = [minor for minor, decision in found.items() if decision == found[first]]
        oldest = GLIBCS[-1]
        while oldest > GLIBCS[0] and found[first] == _decided(release, first, oldest - 1, kind):
            oldest -= 1
        if all(found[first] == _decided(release, minor, oldest, kind) for minor in pythons):
            yield pythons, oldest
        for minor in pythons:
            del found[minor]


def _decided(release: Release, python: int, glibc: int, kind: _Kind) -> Decision:
    """Return a decision without what is filled in when it is used."""
    decision = select(release, Settings(), _machine(python, glibc, kind)).decision("")
    return replace(decision, machine={**decision.machine, "libc": "", "python": ""})


def _kinds(release: Release) -> Iterator[_Kind]:
    """Give the kinds of machines that get answers of their own, as few as there can be.

    Flags above the ordinary level make no difference unless a variant needs them, and the CUDA
    toolkit makes none unless there are variants for NVIDIA.
    """
    ordinary = frozenset(flag for level in _ORDINARY for flag in LEVEL_FLAGS[level])
    more = frozenset(LEVEL_FLAGS["v4"])
    beyond = [
        _Kind(ordinary.union(found), frozenset(), _NO_DEVICES[:1])
        for count in range(len(more) + 1)
        for found in combinations(sorted(more), count)
    ]
    flags = [(ordinary, more), (ordinary | more, frozenset[str]())]
    if _same(release, beyond):
        flags = [(ordinary, frozenset[str]())]
    for needed, refused in flags:
        apart = [_Kind(needed, refused, (text,)) for text in _NO_DEVICES]
        yield from [_Kind(needed, refused, _NO_DEVICES)] if _same(release, apart) else apart


def _same(release: Release, kinds: Sequence[_Kind]) -> bool:
    first, *others = (_decided(release, PYTHONS[-1], GLIBCS[-1], kind) for kind in kinds)
    return all(decision == first for decision in others)


def _machine(python: int, glibc: int, kind: _Kind) -> Machine:
    """Return an ordinary machine; what is written into the decision there is replaced later."""
    described = sorted(kind.flags)
    hwcap = sum(1 << bit for bit, name in X86_HWCAP_BITS.items() if name in described)
    name = f"cp3{python}"
    return Machine(
        system="linux",
        machine="x86_64",
        pointer_bits=64,
        libc=f"glibc 2.{glibc}",
        python=PythonFacts(name, f"3.{python}.0", (name,)),
        texts={
            CPUINFO: f"flags\t\t: {' '.join(described)}\n",
            AUXV: f"AT_HWCAP {hwcap:#x}\n",
            DEVICE_FILES: kind.device_files[0],
        },
    )
