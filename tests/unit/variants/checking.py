"""What tests of the checks share: a tiny project's files, and which checks a wheel fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unit.variants.tiny_project import TinyRelease, copy_project
from variantwheel.checks.report import Result
from variantwheel.checks.suite import CheckOptions, check_wheels
from variantwheel.project import read_project

BASELINE = "tiny_variants/_native/baseline/libtiny.so"
V3 = "tiny_variants/_native/x86_64_v3/libtiny.so"
SUM = "double s(const double* x, long n) { double t = 0; for (long i = 0; i < n; ++i) t += x[i];"
SUM += " return t; }\n"

NOTHING_SLOW = CheckOptions()


def failed_checks(
    release: TinyRelease, *wheels: Path, options: CheckOptions = NOTHING_SLOW
) -> dict[str, str]:
    """The names of the failed checks and their facts, of the last wheel."""
    reports = check_wheels(wheels, read_project(release.project), options)
    return {
        finding.check: "\n".join(finding.facts)
        for finding in reports[-1].findings
        if finding.result is Result.FAILED
    }


def project_with(folder: Path, changes: Mapping[str, tuple[str, str]]) -> Path:
    project = copy_project(folder)
    for name, (old, new) in changes.items():
        text = (project / name).read_text(encoding="utf-8")
        assert old in text
        (project / name).write_text(text.replace(old, new), encoding="utf-8")
    return project
