"""`variant-decision.json`: which variant was installed, why, and why not the others."""

from __future__ import annotations

from collections.abc import Mapping

from variantwheel_selector.errors import DecisionError
from variantwheel_selector.json_text import render_json
from variantwheel_selector.record import field, record
from variantwheel_selector.strict_json import JsonNode, parse_json

DECISION_FILE = "variant-decision.json"
"""Its name in the `.dist-info` folder."""

_SCHEMA = 1


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
            "schema": _SCHEMA,
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


def parse_decision(text: str | bytes, place: str = DECISION_FILE) -> Decision:
    """Read a decision file; keys that a later selector may add are left out.

    Raises:
        DecisionError: The text is no decision file.
    """
    root = parse_json(text, place, DecisionError)
    members = root.object(
        ("schema", "project", "version", "label", "forced", "payload", "machine", "candidates"),
        ("settings", "selector_version", "index_options"),
        ignore_unknown=True,
    )
    members["schema"].schema_number(_SCHEMA)
    filename = sha256 = None
    if members["payload"].value is not None:
        payload = members["payload"].object(("filename", "sha256"), ignore_unknown=True)
        filename, sha256 = payload["filename"].string(), _optional_string(payload["sha256"])
    version = members.get("selector_version")
    options = members.get("index_options")
    return Decision(
        project=members["project"].string(),
        version=members["version"].string(),
        label=_optional_string(members["label"]),
        forced=members["forced"].boolean(),
        filename=filename,
        sha256=sha256,
        settings=_strings_by_key(members.get("settings")),
        machine=_strings_by_key(members["machine"]),
        candidates=tuple(_candidate(node) for node in members["candidates"].elements()),
        selector_version="" if version is None else version.string(),
        index_options=()
        if options is None
        else tuple(option.string() for option in options.elements()),
    )


def _candidate(node: JsonNode) -> DecidedCandidate:
    members = node.object(
        ("label", "accepted", "reasons", "properties"), ("filename",), ignore_unknown=True
    )
    return DecidedCandidate(
        label=_optional_string(members["label"]),
        accepted=members["accepted"].boolean(),
        reasons=tuple(reason.string() for reason in members["reasons"].elements()),
        properties=members["properties"].strings(),
        filename=_optional_string(members["filename"]) if "filename" in members else None,
    )


def _strings_by_key(node: JsonNode | None) -> dict[str, str]:
    return {} if node is None else {key: item.string() for key, item in node.members().items()}


def _optional_string(node: JsonNode) -> str | None:
    return None if node.value is None else node.string()
