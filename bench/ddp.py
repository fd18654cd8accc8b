"""Training steps with DistributedOptimizer against torch's DistributedDataParallel on Gloo.

    python bench/ddp.py

What counts is the part of the communication that the backward pass does not hide: a step's time
less that of the same step without other ranks, which takes its turn in both groups. `shared` has
its gradients in memory that all ranks map.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from turns.cases import Case
from turns.groups import GroupError, Groups
from turns.options import header, parser
from turns.rows import Entry, Measured, Row, duration, measure, table
from turns.training import MODELS

SECONDS = 0.5
AIM = 1 / 3


def row(model: str) -> Row:
    """One model: distributed and alone, in both groups."""
    entries = [
        Entry("horovod", "horovod", Case("step", variant=model)),
        Entry("shared", "horovod", Case("step", variant=f"shared:{model}")),
        Entry("alone", "horovod", Case("step", variant=f"alone:{model}")),
        Entry("DDP", "gloo", Case("step", variant=model)),
        Entry("alone in DDP's", "gloo", Case("step", variant=f"alone:{model}")),
    ]
    return Row(model, entries)


def exposed(measured: Measured, label: str, alone: str) -> float:
    """Seconds of a step that communication adds, the median of the rounds."""
    seconds = measured.seconds
    return statistics.median(a - b for a, b in zip(seconds[label], seconds[alone], strict=True))


def judge(measured: Measured) -> str:
    theirs = exposed(measured, "DDP", "alone in DDP's")
    if theirs <= 0:
        return f"{measured.row.title}: DDP's communication does not show above the noise"
    words = [f"{measured.row.title}: not hidden: DDP {duration(theirs)}"]
    for label in ("horovod", "shared"):
        ours = exposed(measured, label, "alone")
        ratio = ours / theirs
        words.append(
            f"{label} {duration(ours)}, {ratio:.2f} {'met' if ratio <= AIM else 'MISSED'}:"
            " at most 1/3"
        )
    return "; ".join(words)


def main(arguments: Sequence[str]) -> int:
    made = parser("Time training steps against DistributedDataParallel in turns.", mpi=False)
    made.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    made.set_defaults(block=SECONDS)
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
