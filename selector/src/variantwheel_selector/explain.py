"""Words for humans: what a machine supports, which variant was chosen, and why not the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from variantwheel_selector.decision import DecidedCandidate, Decision
from variantwheel_selector.machine import Machine
from variantwheel_selector.providers import Support

_PLAIN = "(plain wheel)"


def decision_lines(decision: Decision) -> list[str]:
    """Return one line for each candidate, the chosen one marked, with its first reason.

    Further reasons of a candidate follow on lines of their own.
    """
    width = max([len("label"), *(len(item.label or _PLAIN) for item in decision.candidates)])
    lines = [f"  {'label':{width}}  {'verdict':8}  because"] if decision.candidates else []
    for item in decision.candidates:
        chosen = decision.filename is not None and item.label == decision.label
        first, *more = item.reasons or ("",)
        lines.append(
            f"{'*' if chosen else ' '} {item.label or _PLAIN:{width}}  "
            f"{_verdict(item, decision, chosen=chosen):8}  {first}".rstrip()
        )
        lines += [f"  {'':{width}}  {'':8}  {reason}" for reason in more]
    return lines


def outcome_line(decision: Decision, *, from_source: bool) -> str:
    """Return the decision in one line.

    Args:
        decision: What was decided.
        from_source: Whether the project is going to be built from source.
    """
    release = f"{decision.project} {decision.version}"
    asked = "".join(f"; {name} = {value}" for name, value in decision.settings.items())
    if decision.filename is not None:
        return f"{release}: {decision.label or _PLAIN} ({decision.filename}){asked}"
    return f"{release}: {'built from source' if from_source else 'nothing fits'}{asked}"


def machine_lines(machine: Machine, support: Iterable[Support]) -> list[str]:
    """Return what is known about a machine and what it supports, one fact per line."""
    rows = dict(machine.facts())
    for answer in support:
        rows |= answer.facts()
        if answer.unknown:
            rows[f"{answer.namespace} is unknown"] = answer.unknown
        elif not answer.features:
            rows[answer.namespace] = f"nothing: {answer.absent}"
        rows |= {
            f"{answer.namespace} :: {feature.name} is unknown": feature.unknown
            for feature in answer.features
            if feature.unknown
        }
    rows |= {f"{fact} is unknown": reason for fact, reason in machine.unknown.items()}
    width = max(map(len, rows))
    return [f"{name:{width}}  {value}" for name, value in rows.items()]


def properties(support: Mapping[str, Support]) -> list[str]:
    """Return the supported properties as text, best first within each feature."""
    return [
        f"{answer.namespace} :: {feature.name} :: {value}"
        for answer in support.values()
        for feature in answer.features
        for value in feature.values
    ]


def machine_json(
    machine: Machine,
    support: Mapping[str, Support],
    only_by_name: list[str],
    assumed: Mapping[str, str],
) -> dict[str, object]:
    """Return what `detect --json` prints; the selector's README documents it.

    Args:
        machine: The captured facts.
        support: All that the machine supports.
        only_by_name: The supported properties that no automatic choice makes use of.
        assumed: What the user stated about the machine, with its origin, in words.
    """
    return {
        "schema": 1,
        "machine": machine.facts(),
        "unknown": dict(sorted(machine.unknown.items())),
        "properties": properties(support),
        "only_by_name": only_by_name,
        "assumed": dict(sorted(assumed.items())),
        "namespaces": {
            namespace: {
                "absent": answer.absent or None,
                "unknown": answer.unknown or None,
                "features": [
                    {
                        "name": feature.name,
                        "values": list(feature.values),
                        "basis": feature.basis,
                        "why_not": dict(feature.why_not),
                        "unknown": feature.unknown or None,
                        "each_device": {
                            device: list(values) for device, values in feature.each_device.items()
                        },
                    }
                    for feature in answer.features
                ],
            }
            for namespace, answer in support.items()
        },
    }


def _verdict(item: DecidedCandidate, decision: Decision, *, chosen: bool) -> str:
    if chosen:
        return "forced" if decision.forced else "chosen"
    return "fits" if item.accepted else "rejected"
