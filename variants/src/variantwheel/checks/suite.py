"""All checks, applied to some wheels of a project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel.checks import content, native
from variantwheel.checks.device import check_device_code
from variantwheel.checks.execution import Emulator, check_execution
from variantwheel.checks.installing import check_installable
from variantwheel.checks.libraries import check_libraries
from variantwheel.checks.rebuild import Rebuild, check_reproducible
from variantwheel.checks.report import Finding, WheelReport, judge
from variantwheel.checks.subject import CheckSubject, read_subject
from variantwheel.errors import WheelFormatError
from variantwheel.project import Project
from variantwheel_selector.wheel_name import escape_project

CHECKS = (
    content.check_label,
    content.check_record,
    content.check_metadata,
    check_installable,
    content.check_licence,
    content.check_tags,
    content.check_size,
    check_libraries,
    native.check_machine,
    native.check_needs,
    native.check_search_paths,
    native.check_exports,
    native.check_plugins,
    native.check_level_folders,
    native.check_isa_notes,
    native.check_instructions,
    native.check_build_paths,
    check_device_code,
)


@dataclass(frozen=True)
class CheckOptions:
    """Which of the slow checks are made.

    Attributes:
        execute: Install and run each wheel on this machine's CPU.
        emulate: Install and run each wheel on the CPU models of its definition.
        emulator: How these are emulated.
        all_pythons: Whether each wheel must serve all CPythons that the project declares; otherwise
            one will do.
        rebuild: Build each wheel again, and how; none for not.
    """

    execute: bool = False
    emulate: bool = False
    emulator: Emulator = field(default_factory=Emulator)
    all_pythons: bool = True
    rebuild: Rebuild | None = None


def check_wheels(
    files: Sequence[Path], project: Project, options: CheckOptions
) -> list[WheelReport]:
    """Check wheels one by one, and that those of one release go together.

    Args:
        files: The wheels.
        project: What they should be variants of.
        options: Which slow checks to make.
    """
    firsts: dict[tuple[str, str], CheckSubject] = {}
    reports: list[WheelReport] = []
    for file in files:
        # A broken wheel says nothing about the others.
        try:
            subject = read_subject(file, project)
            name = subject.archive.name
            first = firsts.setdefault((escape_project(name.distribution), name.version), subject)
            findings = tuple(_findings(subject, first, options))
        except WheelFormatError as error:
            findings = (judge("archive", [str(error)], ""),)
        reports.append(WheelReport(file.name, findings))
    return reports


def _findings(subject: CheckSubject, first: CheckSubject, options: CheckOptions) -> list[Finding]:
    findings = [check(subject) for check in CHECKS]
    if subject.project.pythons.versions:
        findings.append(content.check_pythons(subject, all_pythons=options.all_pythons))
    if first is not subject:
        findings.append(content.check_same_metadata(subject, first))
    if options.rebuild is not None:
        findings.append(check_reproducible(subject, options.rebuild))
    return findings + check_execution(
        subject, execute=options.execute, emulate=options.emulate, emulator=options.emulator
    )
