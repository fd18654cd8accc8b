"""What the checks of a wheel found, as text and as JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SCHEMA = 1


class Result(enum.Enum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: Its name.
        result: How it ended.
        facts: What was compared; for a failed check, one entry for each fault.
    """

    check: str
    result: Result
    facts: tuple[str, ...]


def judge(check: str, faults: Sequence[str], fact: str) -> Finding:
    """Make a finding: failed with its faults, or fine with a fact."""
    if faults:
        return Finding(check, Result.FAILED, tuple(faults))
    return Finding(check, Result.OK, (fact,))


def skip(check: str, reason: str) -> Finding:
    """Make the finding of a check that does not apply."""
    return Finding(check, Result.SKIPPED, (reason,))


@dataclass(frozen=True)
class WheelReport:
    """All findings about one wheel."""

    file: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(finding.result is not Result.FAILED for finding in self.findings)

    @property
    def summary(self) -> str:
        """How many checks ended how; the failed ones by name.

        >>> WheelReport("a.whl", (judge("size", [], ""), skip("needs", ""))).summary
        '1 ok, 1 skipped'
        """
        failed = [item.check for item in self.findings if item.result is Result.FAILED]
        if failed:
            return f"FAILED: {', '.join(failed)}"
        results = [finding.result for finding in self.findings]
        skipped = results.count(Result.SKIPPED)
        return f"{results.count(Result.OK)} ok" + (f", {skipped} skipped" if skipped else "")


def render_reports(reports: Iterable[WheelReport]) -> str:
    """Write the reports as text."""
    lines: list[str] = []
    for report in reports:
        lines += [report.file]
        width = max((len(finding.check) for finding in report.findings), default=0)
        for finding in report.findings:
            word = "FAILED" if finding.result is Result.FAILED else finding.result.value
            for position, fact in enumerate(finding.facts or ("",)):
                start = f"  {word:<7}  {finding.check:<{width}}  "
                lines.append((start if position == 0 else " " * len(start)) + fact)
        lines.append("")
    return "\n".join(lines)


def reports_json(reports: Iterable[WheelReport]) -> dict[str, object]:
    """Return the reports as a JSON object."""
    return {
        "schema": _SCHEMA,
        "wheels": [
            {
                "file": report.file,
                "passed": report.passed,
                "checks": [
                    {
                        "name": finding.check,
                        "result": finding.result.value,
                        "facts": list(finding.facts),
                    }
                    for finding in report.findings
                ],
            }
            for report in reports
        ],
    }
