"""`variant-decision.json`: which variant was installed, why, and why not the others."""

from __future__ import annotations

from collections.abc import Mapping

from variantwheel_selector.json_text import render_json
from variantwheel_selector.record import field, record

DECISION_FILE = "variant-decision.json"
"""Its name in the `.dist-info` folder."""

SCHEMA = 1
"""Of the file."""


@record
class DecidedCandidate:
    """One variant of the release as it was judged.

    Attributes:
        label: Its label; none for a plain wheel.
        accepted: Whether it fitted the machine.
        reasons: The facts compared, in words; never empty for a rejected candidate.
        properties: As text, sorted.
        filename: Its wheel for this Python and platform; none if there is none.
    """

    label: str | None
    accepted: bool
    reasons: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    filename: str | None = None


@record
class Decision:
    """A choice among the variants of a release, made for one machine.

    Attributes:
        project: The release's project.
        version: The release's version.
        label: The chosen variant; none if the project was built from source here.
        forced: Whether the user demanded the label even if it does not fit.
        filename: The chosen wheel with its label; none after a source build.
        sha256: Of that wheel, in hexadecimal; none after a source build, and where `explain` looks
            at an index or folder that gives none.
        settings: What the user asked for, with its origin, by the setting's name.
        machine: The facts about the machine that were used, by name.
        candidates: All variants, the accepted ones first, best first.
        selector_version: Of the selector that decided.
        index_options: Where the installer took packages from, as options of pip and uv, as far as
            a build hook can know; without credentials.
    """

    project: str
    version: str
    label: str | None
    forced: bool
    filename: str | None
    sha256: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    candidates: tuple[DecidedCandidate, ...] = ()
    selector_version: str = ""
    index_options: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the JSON object."""
        payload = None
        if self.filename is not None:
            payload = {"filename": self.filename, "sha256": self.sha256}
        return {
            "schema": SCHEMA,
            "project": self.project,
            "version": self.version,
            "label": self.label,
            "forced": self.forced,
            "payload": payload,
            "settings": dict(sorted(self.settings.items())),
            "machine": dict(sorted(self.machine.items())),
            "candidates": [
                {
                    "label": candidate.label,
                    "accepted": candidate.accepted,
                    "reasons": list(candidate.reasons),
                    "properties": list(candidate.properties),
                    "filename": candidate.filename,
                }
                for candidate in self.candidates
            ],
            "selector_version": self.selector_version,
            "index_options": list(self.index_options),
        }


def render_decision(decision: Decision) -> str:
    """Write the file's text; deterministic."""
    return render_json(decision.to_json())
