"""Building a project's variants: one wheel per label and machine, from the project's own sdist."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

from variantwheel.atomic_file import replace_file
from variantwheel.build_frontend import BuildFrontend, BuildRequest, open_frontend
from variantwheel.build_plan import BuildPlan
from variantwheel.errors import (
    BuildFailedError,
    SdistFormatError,
    SystemRefusedBuildError,
    WheelFormatError,
)
from variantwheel.folder_lock import locked_folder
from variantwheel.job_tokens import JobTokens
from variantwheel.kept_wheels import KeptWheels, digest_inputs
from variantwheel.labelling import label_wheel
from variantwheel.matrix import MatrixJob
from variantwheel.platform_tag import audit_platform, is_linux_platform
from variantwheel.release_folder import is_release_file
from variantwheel.sdist_archive import SdistArchive, read_sdist, unpack_sdist, update_tree
from variantwheel.wheel_archive import read_wheel, wheel_name_of
from variantwheel.wheel_writing import write_wheel
from variantwheel_selector.variants_json import render_variants_json


@dataclass(frozen=True)
class BuildOutcome:
    """What became of one wheel.

    Attributes:
        job: Label and platform.
        seconds: How long it took.
        wheel: The variant wheel in the release folder, or none if it was not built.
        problem: Why it was not built.
        kept: Whether it is that of an earlier build, made of the same.
    """

    job: MatrixJob
    seconds: float
    wheel: Path | None = None
    problem: str = ""
    kept: bool = False


def build_variants(plan: BuildPlan, report: Callable[[str], None]) -> list[BuildOutcome]:
    """Build wheels; one that fails does not keep the others from being built.

    Args:
        plan: What to build.
        report: Called with lines of progress, from several threads.

    Returns:
        The outcomes, in the order of the plan's jobs.

    Raises:
        BuildFailedError: The project's sdist, which all are built from, could not be built.
    """
    with (
        locked_work_folder(plan.work, report),
        open_frontend(plan.environments, isolated=plan.isolated) as frontend,
    ):
        report(f"{plan.project.folder}: building the sdist that all wheels are built from")
        sources = build_project_sdist(plan.project.folder, frontend, plan.work, plan.epoch)
        groups = plan.groups()
        with (
            closing(JobTokens(plan.work / "jobs", plan.cores)) as tokens,
            # Threads only wait for compilers. More builds than cores would crowd each other.
            ThreadPoolExecutor(max_workers=max(1, min(plan.cores, len(groups)))) as pool,
        ):
            run = _BuildRun(plan, frontend, sources, tokens, report)
            finished = [pool.submit(run.build_group, group) for group in groups]
            try:
                outcomes = [outcome for future in finished for outcome in future.result()]
            except BaseException:  # Ctrl-C, above all; the pool would go on with all that is left
                run.stop()
                raise
    order = {job.name: position for position, job in enumerate(plan.jobs)}
    return sorted(outcomes, key=lambda outcome: order[outcome.job.name])


class _BuildRun:
    """The builds of one plan."""

    def __init__(
        self,
        plan: BuildPlan,
        frontend: BuildFrontend,
        sources: SdistArchive,
        tokens: JobTokens,
        report: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._frontend = frontend
        self._sources = sources
        self._report = report
        self._kept = KeptWheels(plan.work / "wheels")
        self._tokens = tokens
        # auditwheel changes the working directory of the process.
        self._audit = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End what is being built, and begin nothing any more."""
        self._stopped.set()
        self._frontend.stop()

    def build_group(self, jobs: list[MatrixJob]) -> list[BuildOutcome]:
        with self._tokens.one():
            return [self._build_one(job) for job in jobs if not self._stopped.is_set()]

    def _build_one(self, job: MatrixJob) -> BuildOutcome:
        started = time.monotonic()
        position = f"[{self._plan.jobs.index(job) + 1}/{len(self._plan.jobs)}]"
        what = f"{position} {job.definition.label} for {job.platform.machine}"
        try:
            wheel, kept = self._make(job, what)
        except SystemRefusedBuildError:  # which all that follow would be
            raise
        except (BuildFailedError, WheelFormatError, SdistFormatError) as error:
            if not self._stopped.is_set():
                self._report(f"{what}: FAILED: {error}")
            return BuildOutcome(job, time.monotonic() - started, problem=str(error))
        seconds = time.monotonic() - started
        self._report(f"{what}: {wheel.name}{', as before' if kept else f', {seconds:.0f} s'}")
        return BuildOutcome(job, seconds, wheel, kept=kept)

    def _make(self, job: MatrixJob, what: str) -> tuple[Path, bool]:
        plan = self._plan
        toolchain = plan.project.toolchains[job.platform.toolchain]
        folder = plan.build_folder(job)
        info = render_variants_json(plan.project.variants_info([job.definition.label]))
        headers = tuple(path for _, path in plan.headers)
        digest = digest_inputs(self._sources, plan.request(job, folder), info, headers)
        # A compiler that nothing pins may be another one by now.
        trusted = (toolchain.incremental or plan.resume) and not plan.rebuild
        wheel = self._kept.find(job.name, digest) if trusted else None
        kept = wheel is not None
        if wheel is None:
            wheel = self._build(job, what, self._kept.folder)
            self._kept.keep(job.name, digest, wheel)
        target = plan.output / wheel.name
        replace_file(target, wheel.read_bytes())
        return target, kept

    def _build(self, job: MatrixJob, what: str, output: Path) -> Path:
        plan = self._plan
        toolchain = plan.project.toolchains[job.platform.toolchain]
        self._report(f"{what}: building, log in {plan.log_file(job)}")
        folder = plan.build_folder(job)
        if toolchain.incremental:
            update_tree(self._sources, folder / "source", plan.work / f"{folder.name}.files")
            shutil.rmtree(folder / "wheel", ignore_errors=True)
            variables = self._tokens.environment
        else:
            # A source tree of its own for each label: build backends reuse object files that they
            # find, whatever flags those were compiled with.
            shutil.rmtree(folder, ignore_errors=True)
            unpack_sdist(self._sources, folder / "source")
            variables = {}
        plain = self._frontend.build(plan.request(job, folder), variables)
        machine = job.platform.machine
        tag = None
        if is_linux_platform(wheel_name_of(plain).platform):
            with self._audit:
                audit = audit_platform(plain, machine)
            tag = None if audit is None else audit.tag
        info = plan.project.variants_info([job.definition.label])
        labelled = label_wheel(read_wheel(plain), job.definition.label, info, tag)
        return write_wheel(labelled, output, plan.epoch)


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
    project = archive.root.rpartition("-")[0]

    def is_source(path: str) -> bool:
        in_work = work is not None and path.startswith(f"{work.as_posix()}/")
        return not in_work and not is_release_file(path.rpartition("/")[2], project)

    kept = {path: item for path, item in archive.files.items() if is_source(path)}
    return SdistArchive(archive.root, kept)


def locked_work_folder(work: Path, report: Callable[[str], None]) -> AbstractContextManager[None]:
    """Let one build at a time use the work folder; its paths are the same each time."""
    return locked_folder(
        work, "lock", lambda: report(f"{work}: another build is running; waiting for it")
    )
