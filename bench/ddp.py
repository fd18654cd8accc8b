"""Training steps with DistributedOptimizer against torch's DistributedDataParallel on Gloo.

    python bench/ddp.py
    python bench/ddp.py --models resnet18 --rounds 101

What counts is the part of the communication that the backward pass does not hide: a step's time
less that of the same step without other ranks, which takes its turn in both groups right before or
after it. A turn is one step, so that what else the machine does meets both; a figure is the median
of these differences, with an interval that holds the true one in 95 of 100 runs, and is judged only
where that of DDP lies above zero. `shared` has its gradients in memory that all ranks map.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from turns.cases import Case
from turns.groups import GroupError, Groups
from turns.options import header, parser
from turns.rows import Entry, Measured, Row, duration, measure, table
from turns.training import MODELS

ONE_STEP = 1e-3  # seconds of a turn: less than any step takes
ROUNDS = 41
AIM = 1 / 3


@dataclass(frozen=True)
class Exposed:
    """Seconds of a step that communication adds: median, and an interval around it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{duration(self.median)} ({duration(self.low)} .. {duration(self.high)})"


def row(model: str) -> Row:
    """One model: distributed and alone, in both groups, those neighbours that are compared."""
    entries = [
        Entry("horovod", "horovod", Case("step", variant=model)),
        Entry("alone", "horovod", Case("step", variant=f"alone:{model}")),
        Entry("shared", "horovod", Case("step", variant=f"shared:{model}")),
        Entry("DDP", "gloo", Case("step", variant=model)),
        Entry("alone in DDP's", "gloo", Case("step", variant=f"alone:{model}")),
    ]
    return Row(model, entries)


def exposed(measured: Measured, label: str, alone: str) -> Exposed:
    """What communication adds, from the differences within rounds.

    The interval is that of the sign test: it supposes nothing of how times are distributed.
    """
    seconds = measured.seconds
    ordered = sorted(a - b for a, b in zip(seconds[label], seconds[alone], strict=True))
    outside = max(0, math.floor(len(ordered) / 2 - 1.96 * math.sqrt(len(ordered)) / 2))
    return Exposed(statistics.median(ordered), ordered[outside], ordered[-1 - outside])


def judge(measured: Measured) -> str:
    theirs = exposed(measured, "DDP", "alone in DDP's")
    words = [f"{measured.row.title}: not hidden: DDP {theirs}"]
    for label in ("horovod", "shared"):
        ours = exposed(measured, label, "alone")
        if theirs.low <= 0:
            words.append(f"{label} {ours}, not judged: DDP's does not show above the noise")
            continue
        ratio = ours.median / theirs.median
        words.append(
            f"{label} {ours}, {ratio:.2f} {'met' if ratio <= AIM else 'MISSED'}: at most 1/3"
        )
    return "; ".join(words)


def main(arguments: Sequence[str]) -> int:
    made = parser("Time training steps against DistributedDataParallel in turns.", mpi=False)
    made.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    made.set_defaults(block=ONE_STEP, rounds=ROUNDS)
    options: argparse.Namespace = made.parse_args(arguments)
    measured = []
    try:
        with Groups(options.ranks, ["gloo"], {}) as groups:
            facts = header(groups, options)
            measured = [
                measure(row(model), groups, options.rounds, options.block)
                for model in options.models
            ]
    except GroupError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(f"{key}: {value}" for key, value in facts.items()))
    print(f"\n{table(measured)}\n")
    print("\n".join(judge(one) for one in measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
