"""What the benchmarks that take turns have in common: options, header, output."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from turns.arguments import positive
from turns.groups import BEFORE, MPI_NAMES, Group, GroupError, Groups
from turns.rows import BLOCK_SECONDS, Measured, Row, measure, table


def parser(description: str, *, mpi: bool = True) -> argparse.ArgumentParser:
    """The options that all of them have."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--rounds", type=positive, default=11, help="turns of each entry (11)")
    made.add_argument("--ranks", type=positive, default=2, help="processes of each library (2)")
    made.add_argument("--block", type=float, default=BLOCK_SECONDS, help="seconds of each turn")
    made.add_argument("--no-gloo", action="store_true", help="without torch.distributed's Gloo")
    made.add_argument("--json", action="store_true", help="every round's figures, for programs")
    if mpi:
        made.add_argument(
            "--before",
            type=Path,
            metavar="FOLDER",
            help="virtual environment with another build of horovod-variants to compare with",
        )
        made.add_argument(
            "--peers",
            type=Path,
            metavar="FOLDER",
            help=f"virtual environments with mpi4py and an MPI each: {', '.join(MPI_NAMES)}",
        )
    return made


def peers_of(options: argparse.Namespace) -> tuple[list[str], dict[str, Path]]:
    """The peers, and where those are that have an environment of their own."""
    folder: Path | None = getattr(options, "peers", None)
    found = {key: folder / key for key in MPI_NAMES if (folder / key).is_dir()} if folder else {}
    before: Path | None = getattr(options, "before", None)
    if before is not None:
        found[BEFORE] = before
    return [*([] if options.no_gloo else ["gloo"]), *found], found


def cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def header(groups: Mapping[str, Group], options: argparse.Namespace) -> dict[str, str]:
    """The machine and what runs on it."""
    priority = os.sched_getscheduler(0) == os.SCHED_FIFO
    facts = {
        "machine": f"{len(os.sched_getaffinity(0))} cores of {cpu_name()}",
        "load": f"{os.getloadavg()[0]:.1f}{', real-time priority' if priority else ''}",
        "ranks": str(options.ranks),
        "rounds": str(options.rounds),
        "python": platform.python_version(),
    }
    return facts | {
        group.name: ", ".join(f"{key} {value}" for key, value in group.facts.items())
        for group in groups.values()
    }


def run(options: argparse.Namespace, rows: Callable[[Sequence[str]], Sequence[Row]]) -> int:
    """Measures all rows in one run and prints them; 1 when a library computed something wrong."""
    peers, environments = peers_of(options)
    measured: list[Measured] = []
    try:
        with Groups(options.ranks, peers, environments) as groups:
            facts = header(groups, options)
            for row in rows([group.name for group in groups.values()]):
                measured.append(measure(row, groups, options.rounds, options.block))
                if not options.json:
                    print(table(measured[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    except GroupError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"schema": 1, "facts": facts, "rows": as_json(measured)}, indent=1))
    else:
        print("\n".join(f"{key}: {value}" for key, value in facts.items()))
        print()
        print(table(measured))
    return 0


def as_json(measured: Sequence[Measured]) -> list[dict[str, object]]:
    return [
        {
            "title": one.row.title,
            "seconds": dict(one.seconds),
            "aims": [asdict(verdict) | {"met": verdict.met} for verdict in one.verdicts()],
        }
        for one in measured
    ]
