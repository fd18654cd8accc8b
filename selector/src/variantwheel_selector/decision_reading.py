"""Reads `variant-decision.json`; build hooks only write it."""

from __future__ import annotations

from variantwheel_selector.decision import DECISION_FILE, SCHEMA, DecidedCandidate, Decision
from variantwheel_selector.errors import DecisionError
from variantwheel_selector.strict_json import JsonNode, parse_json


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
    members["schema"].schema_number(SCHEMA)
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
