"""ResNet-50's 161 gradients (97 MiB) through horovod.torch, Gloo and MPI, as ratios from one run.

    python bench/gradients.py --peers FOLDER

And 1, 16 and 161 tensors of 1 KiB, asynchronous and by blocking calls. Communication alone: each
tensor in memory of its own, as autograd makes it, or in buckets that all ranks map, as
`gradient_as_bucket_view=True` makes them; a call is one step. Adaptive sums, which no peer has,
stand beside plain ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from turns.arguments import KIB
from turns.cases import Case
from turns.groups import MPI_NAMES
from turns.options import parser, run
from turns.rows import Aim, Entry, Row

KEYS = {name: key for key, name in MPI_NAMES.items()}
SECONDS = 0.3
SMALL_COUNTS = (1, 16, 161)


def rows(names: Sequence[str]) -> list[Row]:
    """All known ways to do it, one with gradients in shared memory, and small tensors."""
    entries = [
        Entry(f"horovod {variant}", "horovod", Case("gradients", variant=variant))
        for variant in ("async", "per_tensor", "grouped")
    ]
    entries += [
        Entry(f"Gloo {variant}", "gloo", Case("gradients", variant=variant))
        for variant in ("per_tensor", "async")
    ]
    entries += [Entry(name, KEYS[name], Case("gradients")) for name in names if name in KEYS]
    aims = [
        Aim([*KEYS, "Gloo per_tensor"], 0.8, "0.8 x the fastest, per tensor"),
        Aim(["Gloo async"], 0.2, "0.2 x Gloo's asynchronous"),
    ]
    shared = [Entry("horovod shared", "horovod", Case("gradients", variant="shared"))]
    shared += [entry for entry in entries if entry.group != "horovod"]
    small = [
        Row(
            f"{count} of 1 KiB",
            [
                Entry(label, group, Case("gradients", count * KIB, variant=variant))
                for label, group, variant in (
                    ("horovod async", "horovod", "async"),
                    ("horovod per_tensor", "horovod", "per_tensor"),
                    ("Gloo async", "gloo", "async"),
                )
            ],
        )
        for count in SMALL_COUNTS
    ]
    in_buckets = [Aim([*KEYS, "Gloo per_tensor"], 0.35, "0.35 x the fastest, per tensor")]
    adaptive = [
        Entry(f"horovod {variant}", "horovod", Case("gradients", variant=variant))
        for variant in ("adasum", "async")
    ]
    return [
        Row("ResNet-50", entries, aims),
        Row("ResNet-50, adaptive sums", adaptive),
        Row("ResNet-50, shared", shared, in_buckets),
        *small,
    ]


def main(arguments: Sequence[str]) -> int:
    made = parser("Time the reduction of a model's gradients by several libraries in turns.")
    made.set_defaults(block=SECONDS)
    return run(made.parse_args(arguments), rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
