"""All checks, applied to some wheels of a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from variantwheel.checks import content, native
from variantwheel.checks.execution import check_execution
from variantwheel.checks.report import Finding, WheelReport, judge
from variantwheel.checks.subject import CheckSubject, read_subject
from variantwheel.errors import WheelFormatError
from variantwheel.project import Project
from variantwheel_selector.wheel_name import escape_project

CHECKS = (
    content.check_label,
    content.check_record,
    content.check_metadata,
    content.check_licence,
    content.check_tags,
    content.check_size,
    native.check_machine,
    native.check_needs,
    native.check_search_paths,
    native.check_exports,
    native.check_level_folders,
    native.check_isa_notes,
    native.check_instructions,
    native.check_build_paths,
)


def check_wheels(files: Sequence[Path], project: Project, *, execute: bool) -> list[WheelReport]:
    """Check wheels one by one, and that those of one release go together.

    Args:
        files: The wheels.
        project: What they should be variants of.
        execute: Whether to install and run each of them.
    """
    firsts: dict[tuple[str, str], CheckSubject] = {}
    reports: list[WheelReport] = []
    for file in files:
        try:
            subject = read_subject(file, project)
        except WheelFormatError as error:
            reports.append(WheelReport(file.name, (judge("archive", [str(error)], ""),)))
            continue
        name = subject.archive.name
        first = firsts.setdefault((escape_project(name.distribution), name.version), subject)
        reports.append(WheelReport(file.name, tuple(_findings(subject, first, execute=execute))))
    return reports


def _findings(subject: CheckSubject, first: CheckSubject, *, execute: bool) -> list[Finding]:
    findings = [check(subject) for check in CHECKS]
    if first is not subject:
        findings.append(content.check_same_metadata(subject, first))
    if execute:
        findings.append(check_execution(subject))
    return findings
