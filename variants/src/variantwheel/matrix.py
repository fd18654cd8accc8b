"""The build matrix: every label on every machine that its definition names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from variantwheel.definition import Definition, Platform


@dataclass(frozen=True)
class MatrixJob:
    """One wheel to build."""

    definition: Definition
    platform: Platform

    @property
    def name(self) -> str:
        """What its log and its build folder are called."""
        return f"{self.definition.label}-{self.platform.machine}"

    def to_json(self) -> dict[str, object]:
        """Return what a CI job or a generator needs to know."""
        platform = self.platform
        return {
            "label": self.definition.label,
            "summary": self.definition.summary,
            "machine": platform.machine,
            "runner": platform.runner,
            "toolchain": platform.toolchain,
            "isa": platform.isa,
            "dispatched-levels": list(platform.dispatched_levels),
            "properties": [str(item) for item in self.definition.variant.properties],
            "config-settings": dict(platform.config_settings),
            "environment": dict(platform.environment),
            "size-budget-kb": platform.size_budget_kb,
            "emulate": {
                "runs": list(platform.emulation.runs),
                "falls-back": list(platform.emulation.falls_back),
            },
        }


def matrix_jobs(definitions: Iterable[Definition], machine: str | None = None) -> list[MatrixJob]:
    """List the wheels of a release.

    Args:
        definitions: Of the project.
        machine: Keep this machine's wheels only.
    """
    return [
        MatrixJob(definition, platform)
        for definition in definitions
        for platform in definition.platforms
        if machine in (None, platform.machine)
    ]
