"""What a CPU variant buys: allreduce of one release's wheels, as ratios from one run.

    python bench/variants.py RELEASE                 x86_64_v3 against null
    python bench/variants.py RELEASE --labels neoverse,null

Each wheel has ranks of its own; they take turns as in bench/peers.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from turns.arguments import KIB, MIB, parse_sizes, size_name
from turns.cases import ITEM_BYTES, Case
from turns.groups import Group, GroupError, Start, horovod_start
from turns.options import as_json, header, parser
from turns.rows import Aim, Entry, Row, measure, table

SIZES = [16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB]


class NoWheelError(Exception):
    """The release lacks a wheel; the text names it."""


def find_wheel(release: Path, label: str) -> Path:
    """Return the wheel of a label for this machine.

    Raises:
        NoWheelError: There is none, or several.
    """
    found = sorted(release.glob(f"horovod_variants-*_{os.uname().machine}-{label}.whl"))
    if len(found) != 1:
        raise NoWheelError(f"{release}: {len(found)} wheels of {label!r}; ./dev matrix builds one")
    return found[0]


@contextmanager
def groups_of(release: Path, labels: Sequence[str], ranks: int) -> Iterator[dict[str, Group]]:
    """Starts the ranks of each wheel, from a folder that it is unpacked into."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        groups = {}
        for label in labels:
            unpacked = Path(folder, label)
            with zipfile.ZipFile(find_wheel(release, label)) as wheel:
                wheel.extractall(unpacked)
            path = str(Path(folder, f"{label}.socket"))
            commands = horovod_start(ranks, path).commands
            start = Start(commands, [{"PYTHONPATH": str(unpacked)}])
            groups[label] = stack.enter_context(closing(Group(label, start, ranks, path)))
        yield groups


def rows(labels: Sequence[str], sizes: Sequence[int]) -> list[Row]:
    """Every type and size; the first label is compared with the last."""
    aim = Aim([labels[-1]], 1.05, "no slower")
    return [
        Row(
            f"{dtype} {size_name(nbytes)}",
            [Entry(label, label, Case("allreduce", nbytes, dtype)) for label in labels],
            [aim],
        )
        for dtype in ITEM_BYTES
        for nbytes in sizes
    ]


def main(arguments: Sequence[str]) -> int:
    made = parser("Time the allreduce of several wheels in turns on one machine.", mpi=False)
    made.add_argument("release", type=Path, help="the folder with the wheels")
    made.add_argument(
        "--labels",
        type=lambda text: text.split(","),
        default=["x86_64_v3", "null"],
        help="whose wheels, separated by commas; the first is compared with the last",
    )
    made.add_argument("--sizes", type=parse_sizes, default=SIZES, help="such as 4,1KiB,64MiB")
    options: argparse.Namespace = made.parse_args(arguments)
    measured = []
    try:
        with groups_of(options.release, options.labels, options.ranks) as groups:
            facts = header(groups, options)
            for row in rows(options.labels, options.sizes):
                measured.append(measure(row, groups, options.rounds, options.block))
                print(table(measured[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    except (GroupError, NoWheelError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"schema": 1, "facts": facts, "rows": as_json(measured)}, indent=1))
    else:
        print("\n".join(f"{key}: {value}" for key, value in facts.items()), "", sep="\n")
        print(table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
