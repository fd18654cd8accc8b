"""Building a project's variants: one wheel per label, from the project's own sdist."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from variantwheel.build_frontend import BuildFrontend, BuildRequest, open_frontend
from variantwheel.definition import Definition, Platform
from variantwheel.errors import (
    BuildFailedError,
    DefinitionError,
    ReleaseToolError,
    SdistFormatError,
    WheelFormatError,
)
from variantwheel.labelling import label_wheel
from variantwheel.platform_tag import audit_platform, is_linux_platform
from variantwheel.project import Project
from variantwheel.sdist_archive import SdistArchive, read_sdist, unpack_sdist
from variantwheel.wheel_archive import read_wheel, wheel_name_of, write_wheel


@dataclass(frozen=True)
class BuildPlan:
    """What one run builds, and where.

    Attributes:
        project: The project.
        definitions: Its variants that are to be built.
        machine: What they are built for.
        output: The release folder.
        work: The folder for sources, logs and the build environment.
        isolated: Whether a fresh build environment is made.
        epoch: Time stamp of the release, in seconds since 1970.
    """

    project: Project
    definitions: tuple[Definition, ...]
    machine: str
    output: Path
    work: Path
    isolated: bool
    epoch: int


@dataclass(frozen=True)
class BuildOutcome:
    """What became of one variant.

    Attributes:
        label: Its label.
        seconds: How long it took.
        wheel: The variant wheel, or none if it was not built.
        problem: Why it was not built.
    """

    label: str
    seconds: float
    wheel: Path | None = None
    problem: str = ""


def select_definitions(
    project: Project, labels: Sequence[str], machine: str
) -> tuple[Definition, ...]:
    """Find the definitions to build.

    Args:
        project: The project.
        labels: Their labels; none stands for all that the machine has.
        machine: What they are built for.

    Raises:
        DefinitionError: A label is unknown, or not built for the machine, or the toolchain
            cannot build for it here.
    """
    found = tuple(project.definition(label) for label in dict.fromkeys(labels))
    for definition in found:
        if definition.platform_for(machine) is None:
            machines = ", ".join(platform.machine for platform in definition.platforms)
            raise DefinitionError(
                f"variant {definition.label!r} is not built for {machine!r}, only for {machines}; "
                "name one of them with --machine"
            )
    found = found or project.for_machine(machine)
    if not found:
        known = {platform.machine for item in project.definitions for platform in item.platforms}
        raise DefinitionError(
            f"no variant is built for {machine!r}, only for {', '.join(sorted(known))}"
        )
    for definition in found:
        _check_toolchain(project, definition, machine)
    return found


def build_variants(plan: BuildPlan, report: Callable[[str], None]) -> list[BuildOutcome]:
    """Build wheels; one that fails does not keep the others from being built.

    Args:
        plan: What to build.
        report: Called with lines of progress.

    Raises:
        BuildFailedError: The project's sdist, which all are built from, could not be built.
    """
    outcomes: list[BuildOutcome] = []
    with (
        locked_work_folder(plan.work, report),
        open_frontend(plan.work / "env", isolated=plan.isolated) as frontend,
    ):
        report(f"{plan.project.folder}: building the sdist that all wheels are built from")
        sources = build_project_sdist(plan.project.folder, frontend, plan.work, plan.epoch)
        for position, definition in enumerate(plan.definitions, start=1):
            report(
                f"[{position}/{len(plan.definitions)}] {definition.label} for {plan.machine}: "
                f"building, log in {_log_file(plan, definition)}"
            )
            outcome = _build_one(plan, definition, frontend, sources)
            words = outcome.wheel.name if outcome.wheel else f"FAILED: {outcome.problem}"
            report(f"[{position}/{len(plan.definitions)}] {definition.label}: {words}")
            outcomes.append(outcome)
    return outcomes


def build_project_sdist(
    folder: Path, frontend: BuildFrontend, work: Path, epoch: int
) -> SdistArchive:
    """Build and read the project's own sdist.

    Args:
        folder: The project.
        frontend: The environment.
        work: Where the file and its log go.
        epoch: SOURCE_DATE_EPOCH for the backend.
    """
    output = work / "sdist"
    shutil.rmtree(output, ignore_errors=True)
    file = frontend.build(
        BuildRequest(
            distribution="sdist",
            source=folder,
            output=output,
            log=work / "sdist.log",
            environment={"SOURCE_DATE_EPOCH": str(epoch)},
        )
    )
    archive = read_sdist(file)
    own = work.resolve()
    inside = own.relative_to(folder.resolve()) if own.is_relative_to(folder.resolve()) else None
    return without_release_files(archive, inside)


def without_release_files(archive: SdistArchive, work: Path | None) -> SdistArchive:
    """Leave out what earlier releases left in the project's folder.

    A backend takes all files that nothing tells it to ignore. Without this a release would hold
    the one before it, which held the one before that.

    Args:
        archive: The project's own sdist.
        work: The toolkit's work folder relative to the project; none when it lies elsewhere.
    """
    release = archive.root.rpartition("-")[0] + "-"
    endings = (".whl", ".whl.metadata", ".tar.gz", "-variants.json")

    def is_source(path: str) -> bool:
        name = path.rpartition("/")[2]
        in_work = work is not None and path.startswith(f"{work.as_posix()}/")
        return not in_work and not (name.startswith(release) and name.endswith(endings))

    kept = {path: item for path, item in archive.files.items() if is_source(path)}
    return SdistArchive(archive.root, kept)


def _build_one(
    plan: BuildPlan, definition: Definition, frontend: BuildFrontend, sources: SdistArchive
) -> BuildOutcome:
    started = time.monotonic()
    platform = definition.platform_for(plan.machine)
    if platform is None:
        raise ReleaseToolError(f"{definition.label}: not built for {plan.machine}")
    try:
        wheel = _build_and_label(plan, definition, platform, frontend, sources)
    except (BuildFailedError, WheelFormatError, SdistFormatError) as error:
        return BuildOutcome(definition.label, time.monotonic() - started, problem=str(error))
    return BuildOutcome(definition.label, time.monotonic() - started, wheel)


def _build_and_label(
    plan: BuildPlan,
    definition: Definition,
    platform: Platform,
    frontend: BuildFrontend,
    sources: SdistArchive,
) -> Path:
    # A source tree of its own for each label: build backends reuse object files that they find,
    # whatever flags those were compiled with.
    place = plan.work / f"{definition.label}-{plan.machine}"
    shutil.rmtree(place, ignore_errors=True)
    unpack_sdist(sources, place / "source")
    toolchain = plan.project.toolchains[platform.toolchain]
    plain = frontend.build(
        BuildRequest(
            distribution="wheel",
            source=place / "source",
            output=place / "wheel",
            log=_log_file(plan, definition),
            config_settings={**toolchain.config_settings, **platform.config_settings},
            environment={
                "SOURCE_DATE_EPOCH": str(plan.epoch),
                **toolchain.environment,
                **platform.environment,
            },
            requires=toolchain.requires,
        )
    )
    tag = None
    if is_linux_platform(wheel_name_of(plain).platform):
        audit = audit_platform(plain, plan.machine)
        tag = None if audit is None else audit.tag
    info = plan.project.variants_info([definition.label])
    labelled = label_wheel(read_wheel(plain), definition.label, info, tag)
    return write_wheel(labelled, plan.output, plan.epoch)


def _log_file(plan: BuildPlan, definition: Definition) -> Path:
    return plan.work / f"{definition.label}-{plan.machine}.log"


def _check_toolchain(project: Project, definition: Definition, machine: str) -> None:
    platform = definition.platform_for(machine)
    if platform is None:
        return
    here = os.uname().machine
    machines = project.toolchains[platform.toolchain].machines or (here,)
    if machine not in machines:
        raise DefinitionError(
            f"toolchain {platform.toolchain!r} of variant {definition.label!r} builds for "
            f"{', '.join(machines)}, not for {machine}; run this on such a machine "
            f"(CI runner {platform.runner!r}) or name a toolchain that can"
        )


@contextmanager
def locked_work_folder(work: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Let one build at a time use the work folder; its paths are the same each time."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{work}: another build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
