"""Compression on the way against compression by PyTorch, as ratios from one run.

    python bench/compression.py

One tensor of float32 by a blocking allreduce, and ResNet-50's gradients as an optimizer sends them.
Sizes are those of float32. The first column is `Compression.fp16` and `.bf16`, the second the same
conversions by PyTorch, tensor by tensor, the third float32 itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from turns.arguments import KIB, MIB, parse_sizes, size_name
from turns.cases import Case
from turns.options import parser, run
from turns.rows import Aim, Entry, Row

SIZES = [KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]


def compared(title: str, work: str, nbytes: int, dtype: str) -> Row:
    """A row of one type."""
    labels = {"on the way": dtype, "by PyTorch": f"{dtype} by PyTorch", "float32": "none"}
    return Row(
        title,
        [
            Entry(label, "horovod", Case(work, nbytes, variant=variant))
            for label, variant in labels.items()
        ],
        [Aim(["by PyTorch"], 1.0, "no slower")],
    )


def rows(sizes: Sequence[int]) -> list[Row]:
    """All sizes of both types, and the gradients."""
    dtypes = ("float16", "bfloat16")
    return [
        *(
            compared(f"{dtype} {size_name(nbytes)}", "compressed", nbytes, dtype)
            for dtype in dtypes
            for nbytes in sizes
        ),
        *(compared(f"{dtype} ResNet-50", "compressed gradients", 0, dtype) for dtype in dtypes),
    ]


def main(arguments: Sequence[str]) -> int:
    made = parser("Time compressed allreduces of one library in two ways.", mpi=False)
    made.add_argument("--sizes", type=parse_sizes, default=SIZES, help="such as 1KiB,64MiB")
    options = made.parse_args(arguments)
    options.no_gloo = True
    return run(options, lambda _: rows(options.sizes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
