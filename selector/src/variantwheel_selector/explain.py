"""Words for humans: what a machine supports, which variant was chosen, and why not the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from variantwheel_selector.decision import DecidedCandidate, Decision
from variantwheel_selector.machine import Machine
from variantwheel_selector.providers import Support
from variantwheel_selector.surroundings import surroundings

_PLAIN = "(plain wheel)"
_SUPPORTED = ": supported ("
_NEED = r"(needs [^:]+ :: [^:]+ :: [^:]+): (.+)"
_LONG = 40
_MOST_REASONS = 3
_MOST_BETTER = 6


def decision_lines(decision: Decision) -> list[str]:
    """Return the candidates, the chosen one marked, each with the facts that decided.

    A rejected candidate has one line for each reason, up to a few; all are in the JSON form. What
    was said of a candidate before is not said again.
    """
    said: dict[str, str] = {}
    width = max([len("label"), *(len(item.label or _PLAIN) for item in decision.candidates)])
    lines = [f"  {'label':{width}}  {'verdict':8}  because"] if decision.candidates else []
    for item in decision.candidates:
        chosen = decision.filename is not None and item.label == decision.label
        reasons = list(item.reasons) or [""]
        if item.accepted:
            reasons = ["; ".join(_short(reason) for reason in reasons)]
        else:
            reasons = _merged(reasons, item.label or _PLAIN, said)
        first, *more = reasons
        lines.append(
            f"{'*' if chosen else ' '} {item.label or _PLAIN:{width}}  "
            f"{_verdict(item, decision, chosen=chosen):8}  {first}".rstrip()
        )
        more = [reason for reason in more if _SUPPORTED not in reason]
        lines += [f"  {'':{width}}  {'':8}  {reason}" for reason in more[:_MOST_REASONS]]
    return lines


def _short(reason: str) -> str:
    """Return a reason for accepting without what it is based on, which stands above already."""
    return reason.partition(_SUPPORTED)[0]


def _merged(reasons: Sequence[str], label: str, said: dict[str, str]) -> list[str]:
    """Return reasons with one line for needs that fail alike.

    Args:
        reasons: Of one candidate.
        label: Its label.
        said: Long explanations to the label that they were given for; takes up the new ones.
    """
    needs: dict[str, list[str]] = {}
    for reason in reasons:
        match = re.fullmatch(_NEED, reason)
        need, why = match.groups() if match and _SUPPORTED not in reason else (reason, reason)
        needs.setdefault(why, []).append(need)
    lines: list[str] = []
    for why, found in needs.items():
        if found == [why]:
            lines.append(why)
            continue
        earlier = said.setdefault(why, label) if len(why) > _LONG else label
        lines.append(f"{'; '.join(found)}: {why if earlier == label else f'as for {earlier}'}")
    return lines


def setting_lines(decision: Decision) -> list[str]:
    """Return what the user's settings state, each with its origin."""
    width = max(map(len, decision.settings), default=0)
    return [f"  {name:{width}}  {text}" for name, text in decision.settings.items()]


def better_lines(better: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return what would have to change for better candidates, by label."""
    labels: dict[str, list[str]] = {}
    for label, changes in better[:_MOST_BETTER]:
        labels.setdefault("; and ".join(dict.fromkeys(changes)), []).append(label)
    return [f"  {', '.join(found)}: {words}" for words, found in labels.items()]


def outcome_line(decision: Decision, *, from_source: bool) -> str:
    """Return the decision in one line.

    Args:
        decision: What was decided.
        from_source: Whether the project is going to be built from source.
    """
    release = f"{decision.project} {decision.version}"
    if decision.filename is not None:
        return f"{release}: {decision.label or _PLAIN} ({decision.filename})"
    if from_source:
        return f"{release}: built from source"
    fits = any(candidate.accepted for candidate in decision.candidates)
    return f"{release}: {'none of those that fit is chosen' if fits else 'nothing fits'}"


def machine_lines(machine: Machine, support: Iterable[Support]) -> list[str]:
    """Return what is known about a machine and what it supports, one fact per line."""
    rows = machine.facts() | surroundings(machine)
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
    # Of one fact, the provider's sentence is enough.
    said = " ".join(rows.values())
    rows |= {
        f"{fact} is unknown": reason
        for fact, reason in machine.unknown.items()
        if reason not in said
    }
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
        "surroundings": surroundings(machine),
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
