"""What a build is to make, and with which settings: everything decided before anything runs."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from variantwheel.build_frontend import BuildRequest
from variantwheel.build_tools import shared_tools
from variantwheel.errors import DefinitionError
from variantwheel.matrix import MatrixJob, matrix_jobs
from variantwheel.project import Project


@dataclass(frozen=True)
class BuildPlan:
    """What one run builds, and where.

    Attributes:
        project: The project.
        jobs: The wheels that are to be built.
        output: The release folder.
        work: The folder for sources, logs and the build environments.
        environments: The folder of the build environments.
        isolated: Whether the backend runs in one of them, or in the environment of this process.
        epoch: Time stamp of the release, in seconds since 1970.
        cores: How many compilers may run at once.
        headers: Of the CPythons that modules are built for, by ABI.
        rebuild: Whether wheels are built again although nothing has changed.
        resume: Whether an earlier run's wheels are taken, if nothing has changed, from toolchains
            too that are not incremental.
    """

    project: Project
    jobs: tuple[MatrixJob, ...]
    output: Path
    work: Path
    environments: Path
    isolated: bool
    epoch: int
    cores: int = 1
    headers: tuple[tuple[str, Path], ...] = ()
    rebuild: bool = False
    resume: bool = False

    def log_file(self, job: MatrixJob) -> Path:
        """Return where the backend's output goes."""
        return self.work / f"{job.name}.log"

    def groups(self) -> list[list[MatrixJob]]:
        """Split the jobs into those that can run at the same time.

        Jobs that share a build folder run one after another.
        """
        groups: dict[Path, list[MatrixJob]] = {}
        for job in self.jobs:
            groups.setdefault(self.build_folder(job), []).append(job)
        return list(groups.values())

    def build_folder(self, job: MatrixJob) -> Path:
        """Return where a job is built: with an incremental toolchain, a folder that others share.

        Only those do that state the same settings, whatever their values: build systems remember a
        setting, so that one which a later variant does not state would still count for it. And only
        with the same text in the files that settings name, such as CMake's toolchain file: what
        these set is remembered as well. And only with the same tools: what one compiler made is no
        work of another one.
        """
        toolchain = self.project.toolchain_of(job.platform)
        if not toolchain.incremental:
            return self.work / job.name
        names = "\n".join((*sorted(toolchain.config_settings), "", *sorted(toolchain.environment)))
        digest = hashlib.sha256(names.encode())
        digest.update(f"\n\n{self._tools(job)}".encode())
        for value in sorted(set(toolchain.config_settings.values())):
            if _names_a_file(self.project.folder, value):
                digest.update((self.project.folder / value).read_bytes())
        stated = digest.hexdigest()[:8]
        return self.work / f"{job.platform.machine}-{job.platform.toolchain}-{stated}"

    def request(self, job: MatrixJob, folder: Path) -> BuildRequest:
        """Return the call of the backend.

        Args:
            job: What to build.
            folder: Where `source` lies and `wheel` is to be.
        """
        toolchain = self.project.toolchain_of(job.platform)
        settings = {**toolchain.config_settings}
        if self.headers:
            settings |= self.project.pythons.config_settings
            settings[self.project.pythons.setting] = ";".join(
                f"{abi}={headers}" for abi, headers in self.headers
            )
        return BuildRequest(
            distribution="wheel",
            source=folder / "source",
            output=folder / "wheel",
            log=self.log_file(job),
            config_settings=settings,
            environment={"SOURCE_DATE_EPOCH": str(self.epoch), **toolchain.environment},
            requires=toolchain.requires,
            tools=self._tools(job),
        )

    def _tools(self, job: MatrixJob) -> str:
        project, toolchain = self.project, job.platform.toolchain
        others = [
            (*project.build_requires, *project.toolchain_of(platform).requires)
            for definition in project.definitions
            for platform in definition.platforms
            if platform.toolchain == toolchain
        ]
        own = (*project.build_requires, *project.toolchain_of(job.platform).requires)
        return shared_tools(own, others)


def _names_a_file(folder: Path, value: str) -> bool:
    try:
        return bool(value) and not Path(value).is_absolute() and (folder / value).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def select_jobs(
    project: Project, labels: Sequence[str], machines: Sequence[str]
) -> tuple[tuple[MatrixJob, ...], list[str]]:
    """Find the wheels to build.

    Args:
        project: The project.
        labels: Their labels; none stands for all.
        machines: What they are built for; none stands for all that can be built for here.

    Returns:
        The jobs, and why others have to be done elsewhere.

    Raises:
        DefinitionError: A label is unknown, or not built for the machine, or the toolchain
            cannot build for it here, or lacks a program.
    """
    definitions = [project.definition(label) for label in dict.fromkeys(labels)]
    scope = matrix_jobs(definitions or project.definitions)
    chosen = [job for job in scope if not machines or job.platform.machine in machines]
    for label in [item.label for item in definitions] or [""]:
        if not any(label in ("", job.definition.label) for job in chosen):
            known = {job.platform.machine for job in scope if label in ("", job.definition.label)}
            what = f"variant {label!r} is not" if label else "no variant is"
            raise DefinitionError(
                f"{what} built for {', '.join(map(repr, machines))}, "
                f"only for {', '.join(sorted(known))}; name one of them with --machine"
            )
    elsewhere = {job.name: why for job in chosen if (why := _why_elsewhere(project, job))}
    if elsewhere and (machines or len(elsewhere) == len(chosen)):
        raise DefinitionError(next(iter(elsewhere.values())))
    here = tuple(job for job in chosen if job.name not in elsewhere)
    for job in here:
        _check_programs(project, job)
    return here, list(elsewhere.values())


def check_pythons(project: Project, missing: Sequence[str], *, allow_missing: bool) -> list[str]:
    """Judge the declared CPythons that were not found.

    Args:
        project: Which declares them.
        missing: Their versions.
        allow_missing: Whether a release without them is what is wanted.

    Returns:
        Warnings.

    Raises:
        DefinitionError: One that the release must have is missing.
    """
    needed = [version for version in missing if version in project.pythons.versions]
    none_found = len(missing) == len(project.pythons.versions) + len(project.pythons.optional)
    if needed and (none_found or not allow_missing):
        raise DefinitionError(
            f"no headers of CPython {', '.join(needed)} were found, which "
            "[tool.variantwheel.pythons] of pyproject.toml declares; looked on the PATH, in "
            "pyenv's versions and in /opt/python. Install them, or name one with --python PROGRAM "
            "or --python FOLDER-WITH-PYTHON.H, or build for those that are here, if there are any, "
            "with --pythons available"
        )
    return [f"without a module for CPython {version}: not found here" for version in missing]


def _why_elsewhere(project: Project, job: MatrixJob) -> str:
    """Say why a job cannot be done on this machine; nothing where it can."""
    here = os.uname().machine
    platform = job.platform
    machines = project.toolchains[platform.toolchain].machines or (here,)
    if platform.machine in machines:
        return ""
    name = ""
    if platform.machine == "arm64" and "mac" not in platform.runner.lower():
        name = "; on Linux the machine is called 'aarch64'"
    return (
        f"toolchain {platform.toolchain!r} of variant {job.definition.label!r} builds for "
        f"{', '.join(machines)}, not for {platform.machine}; run this on such a machine "
        f"(CI runner {platform.runner!r}) or name a toolchain that can{name}"
    )


def _check_programs(project: Project, job: MatrixJob) -> None:
    toolchain = job.platform.toolchain
    for program in project.toolchains[toolchain].programs:
        if shutil.which(program) is None:
            raise DefinitionError(
                f"toolchain {toolchain!r} of variant {job.definition.label!r} needs {program!r}, "
                "which is not on the PATH; install it, or build the other variants by their names"
            )
