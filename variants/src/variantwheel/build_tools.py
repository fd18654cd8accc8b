"""Which builds can share their tools: those whose requirements can be installed together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_Texts = Mapping[str, tuple[str, ...]]
"""Requirements by the normalised name of what is required."""


def shared_tools(own: Iterable[str], others: Iterable[Iterable[str]]) -> str:
    """Name the tools that a build can share with others of a project.

    Args:
        own: The build's requirements.
        others: Those of the project's builds, this one among them or not.

    Returns:
        A text, the same for builds that do not state one requirement differently; another one
        as soon as any requirement of any of them is another one.
    """
    mine = _by_name(own)
    stated = [mine, *map(_by_name, others)]
    lines = []
    for name in sorted({name for each in stated for name in each}):
        texts = {each[name] for each in stated if name in each}
        text = texts.pop() if len(texts) == 1 else mine.get(name, ())
        lines.append("\t".join((name, *text)))
    return "\n".join(lines)


def _by_name(requirements: Iterable[str]) -> _Texts:
    found: dict[str, list[str]] = {}
    for text in sorted(set(requirements)):
        found.setdefault(_name_of(text), []).append(text)
    return {name: tuple(texts) for name, texts in found.items()}


def _name_of(requirement: str) -> str:
    try:
        return canonicalize_name(Requirement(requirement).name)
    except InvalidRequirement:  # pip will say what is wrong with it
        return requirement
