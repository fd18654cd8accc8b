"""Rows of a comparison: entries timed in turns, ratios within each round, aims met or missed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turns.cases import Case
from turns.groups import Group

BLOCK_SECONDS = 0.03
MOST_REPETITIONS = 20_000


@dataclass(frozen=True)
class Entry:
    """One of those that take turns in a row.

    Attributes:
        label: of the column.
        group: whose ranks run it.
    """

    label: str
    group: str
    case: Case


@dataclass(frozen=True)
class Aim:
    """What a row must reach: a ratio to the fastest of some entries.

    Attributes:
        against: labels of the entries; the one with the lowest median counts.
        at_most: our time by theirs.
        text: the same in words.
        ours: label of the entry that has to reach it; "" for the row's first.
    """

    against: Sequence[str]
    at_most: float
    text: str
    ours: str = ""


@dataclass(frozen=True)
class Row:
    """What is compared: the first entry with the others."""

    title: str
    entries: Sequence[Entry]
    aims: Sequence[Aim] = ()


@dataclass(frozen=True)
class Verdict:
    """An aim and what was reached: our time by the other's, median and quartiles of the rounds."""

    aim: Aim
    other: str
    ratio: float
    low: float
    high: float

    @property
    def met(self) -> bool:
        return self.ratio <= self.aim.at_most


@dataclass(frozen=True)
class Measured:
    """Seconds for each entry and round."""

    row: Row
    seconds: Mapping[str, list[float]]

    def median(self, label: str) -> float:
        return statistics.median(self.seconds[label])

    def ratios(self, other: str, label: str = "") -> list[float]:
        """Our time by another's in each round, ascending; ours is the row's first, or `label`."""
        ours = self.seconds[label or self.row.entries[0].label]
        return sorted(a / b for a, b in zip(ours, self.seconds[other], strict=True))

    def verdicts(self) -> list[Verdict]:
        verdicts = []
        for aim in self.row.aims:
            present = [label for label in aim.against if label in self.seconds]
            if not present:
                continue
            other = min(present, key=self.median)
            ratios = self.ratios(other, aim.ours)
            quarter = len(ratios) // 4
            verdicts.append(
                Verdict(
                    aim, other, statistics.median(ratios), ratios[quarter], ratios[-1 - quarter]
                )
            )
        return verdicts


def measure(
    row: Row, groups: Mapping[str, Group], rounds: int, block: float = BLOCK_SECONDS
) -> Measured:
    """Times a row: in each round every entry once, for about `block` seconds."""
    entries = [entry for entry in row.entries if entry.group in groups]
    repetitions = {}
    for entry in entries:
        group = groups[entry.group]
        group.prepare(entry.label, entry.case)
        once = group.seconds(entry.label, 3)
        if once < block / 10:
            once = group.seconds(entry.label, 10)
        repetitions[entry.label] = min(MOST_REPETITIONS, max(1, int(block / once)))
    seconds: dict[str, list[float]] = {entry.label: [] for entry in entries}
    for turn in range(rounds):
        # Whoever follows a noisy neighbour is not always the same.
        for entry in entries[turn % len(entries) :] + entries[: turn % len(entries)]:
            one = groups[entry.group].seconds(entry.label, repetitions[entry.label])
            seconds[entry.label].append(one)
    for group in {entry.group: groups[entry.group] for entry in entries}.values():
        group.drop()
    return Measured(row, seconds)


def duration(seconds: float) -> str:
    """`4.1 µs`, `12.3 ms`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms"


def table(measured: Sequence[Measured]) -> str:
    """All rows, their figures by entry, and what became of their aims."""
    labels = list(dict.fromkeys(label for one in measured for label in one.seconds))
    width = max(len(one.row.title) for one in measured)
    columns = [max(10, len(label)) for label in labels]
    heads = "  ".join(f"{label:>{columns[i]}}" for i, label in enumerate(labels))
    lines = [f"{'':{width}}  {heads}  ours/other (quartiles) aim"]
    for one in measured:
        cells = [duration(one.median(label)) if label in one.seconds else "" for label in labels]
        text = "  ".join(f"{cell:>{columns[i]}}" for i, cell in enumerate(cells))
        judged = "; ".join(
            f"{v.ratio:.2f} {v.other} ({v.low:.2f} .. {v.high:.2f})"
            f" {'met' if v.met else 'MISSED'}: {v.aim.text}"
            for v in one.verdicts()
        )
        lines.append(f"{one.row.title:>{width}}  {text}  {judged}")
    return "\n".join(lines)
