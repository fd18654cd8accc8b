"""Collectives of horovod.torch against Gloo and MPI, as ratios from one run.

    python bench/peers.py --peers FOLDER
    python bench/peers.py --works allreduce --sizes 4,1KiB,16KiB

Every library has ranks of its own (turns/groups.py), all held open; they take turns, a short block
of calls each, so that whatever else the machine does meets all of them. Results are compared with
the expected ones before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from turns.arguments import KIB, MIB, parse_sizes, size_name
from turns.cases import Case
from turns.groups import BEFORE, MPI_NAMES
from turns.options import parser, run
from turns.rows import Aim, Entry, Row

ALLREDUCE_SIZES = [4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
HALF_SIZES = [MIB, 4 * MIB, 16 * MIB, 64 * MIB]  # of the 16-bit tensor
AVERAGE_SIZES = [KIB, 64 * KIB, MIB, 16 * MIB]
OTHER_SIZES = [KIB, MIB, 64 * MIB]
OTHER_WORKS = ["allgather", "broadcast", "alltoall", "reducescatter"]
SHARED_SIZES = [256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
WORKS = ["allreduce", "average", "half", "shared", *OTHER_WORKS]
KEYS = {"Gloo": "gloo"} | {name: key for key, name in MPI_NAMES.items()}


def compared(ours: Entry, names: Sequence[str], aims: list[Aim]) -> list[Entry]:
    """What does the case of ours in other libraries, and in another build of ours if there is one.

    Args:
        ours: the entry of this build.
        names: the libraries that are there.
        aims: to which that of being no slower than the other build is added.
    """
    entries = [Entry(name, KEYS[name], plain(ours.case)) for name in names if name in KEYS]
    if BEFORE in names:
        entries.append(Entry(BEFORE, BEFORE, ours.case))
        aims.append(Aim([BEFORE], 1.0, "the other build"))
    return entries


def plain(case: Case) -> Case:
    """The same work as other libraries do it."""
    return replace(case, variant="")


def parse_works(text: str) -> list[str]:
    works = text.split(",")
    if unknown := [work for work in works if work not in WORKS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(WORKS)}")
    return works


def allreduce_row(nbytes: int, names: Sequence[str]) -> Row:
    """One size of float32, all libraries, and what has to be reached there."""
    ours = Entry("horovod", "horovod", Case("allreduce", nbytes))
    everyone, mpis = list(KEYS), list(MPI_NAMES.values())
    if nbytes <= KIB:
        aims = [Aim(["Gloo"], 0.02, "50 x faster than Gloo")]
    elif nbytes <= MIB:
        aims = [Aim(mpis, 1.0, "the fastest MPI")]
    elif nbytes <= 4 * MIB:
        aims = [Aim(everyone, 1 / 1.5, "1.5 x faster than the fastest")]
    else:
        aims = [Aim(everyone, 1 / 2.5, "2.5 x faster than the fastest")]
    return Row(f"allreduce {size_name(nbytes)}", [ours, *compared(ours, names, aims)], aims)


def average_row(dtype: str, nbytes: int, names: Sequence[str]) -> Row:
    """What allreduces make unless told otherwise, against sums."""
    ours = Entry("average", "horovod", Case("allreduce", nbytes, dtype, "average"))
    aims = [Aim(["sum"], 1.1, "1.1 x a sum")]
    entries = [ours, Entry("sum", "horovod", Case("allreduce", nbytes, dtype))]
    entries += compared(ours, [name for name in names if name == BEFORE], aims)
    return Row(f"{dtype}, average {size_name(nbytes)}", entries, aims)


def half_row(dtype: str, nbytes: int) -> Row:
    """A 16-bit type against as many float32, and against Gloo."""
    entries = [
        Entry(dtype, "horovod", Case("allreduce", nbytes, dtype)),
        Entry("as float32", "horovod", Case("allreduce", 2 * nbytes)),
        Entry("Gloo", "gloo", Case("allreduce", nbytes, dtype)),
    ]
    aims = [
        Aim(["as float32"], 0.65, "0.65 x float32"),
        Aim(["Gloo"], 0.2, "5 x faster than Gloo"),
    ]
    return Row(f"{dtype} {size_name(nbytes)}", entries, aims)


def shared_row(nbytes: int, names: Sequence[str]) -> Row:
    """One size of float32 in memory that all ranks map, against torch's arithmetic on it alone."""
    ours = Entry("shared", "horovod", Case("allreduce", nbytes, variant="shared"))
    entries = [
        ours,
        Entry("torch alone", "horovod", Case("allreduce", nbytes, variant="arithmetic")),
        Entry("copied", "horovod", Case("allreduce", nbytes)),
    ]
    aims = [Aim(["torch alone"], 1.3, "1.3 x torch without waiting")] if nbytes >= MIB else []
    entries += compared(ours, names, aims)
    return Row(f"allreduce, shared {size_name(nbytes)}", entries, aims)


def other_row(work: str, nbytes: int, names: Sequence[str]) -> Row:
    """One of the other collectives, into memory that is there, as all peers do it.

    Where Horovod's own call makes a new tensor, that has a column of its own.
    """
    given = "" if work == "broadcast" else "output"
    ours = Entry("horovod", "horovod", Case(work, nbytes, variant=given))
    entries = [ours]
    aims = [Aim(list(KEYS), 1.0, "the fastest")]
    if given:
        entries.append(Entry("new tensor", "horovod", Case(work, nbytes)))
        aims.append(Aim(list(KEYS), 1.0, "the fastest, with a new tensor", "new tensor"))
    entries += compared(ours, names, aims)
    return Row(f"{work} {size_name(nbytes)}", entries, aims)


def uneven_size(works: Sequence[str], sizes: Sequence[int], ranks: int) -> str:
    """A size, and the work that cannot give each rank as many elements of it; "" if all can."""
    for work in ("alltoall", "reducescatter"):
        for nbytes in sizes if work in works else ():
            if Case(work, nbytes).count % ranks:
                return f"{work} of {size_name(nbytes)}"
    return ""


def choose_rows(options: argparse.Namespace) -> Callable[[Sequence[str]], list[Row]]:
    """The rows that the options ask for, once the names of the libraries are known."""

    def rows(names: Sequence[str]) -> list[Row]:
        chosen = []
        if "allreduce" in options.works:
            sizes = options.sizes or ALLREDUCE_SIZES
            chosen += [allreduce_row(nbytes, names) for nbytes in sizes]
        if "average" in options.works:
            chosen += [
                average_row(dtype, nbytes, names)
                for dtype in ("float32", "float16", "bfloat16")
                for nbytes in options.sizes or AVERAGE_SIZES
            ]
        if "half" in options.works:
            chosen += [
                half_row(dtype, nbytes)
                for dtype in ("float16", "bfloat16")
                for nbytes in options.sizes or HALF_SIZES
            ]
        if "shared" in options.works:
            chosen += [shared_row(nbytes, names) for nbytes in options.sizes or SHARED_SIZES]
        for work in OTHER_WORKS:
            if work in options.works:
                sizes = options.sizes or OTHER_SIZES
                chosen += [other_row(work, nbytes, names) for nbytes in sizes]
        return chosen

    return rows


def main(arguments: Sequence[str]) -> int:
    made = parser("Time collectives of several libraries in turns on one machine.")
    made.add_argument("--works", type=parse_works, default=WORKS, help=",".join(WORKS))
    made.add_argument("--sizes", type=parse_sizes, help="such as 4,1KiB,64MiB")
    options = made.parse_args(arguments)
    if uneven := uneven_size(options.works, options.sizes or OTHER_SIZES, options.ranks):
        made.error(f"{uneven} cannot be divided among {options.ranks} ranks; leave out one of them")
    return run(options, choose_rows(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
