"""Time from a start to the first allreduce done, and of `import horovod`.

    python bench/startup.py

Two ranks by horovodrun without torch, and fresh interpreters that import the package.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

FIRST_ALLREDUCE = (
    "import array, time, horovod.array as hvd; hvd.init();"
    " assert list(hvd.allreduce(array.array('f', [1.0 + hvd.rank()]), op=hvd.Sum))[0] > 1;"
    " print('DONE', time.clock_gettime(time.CLOCK_MONOTONIC))"
)
IMPORT = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"
AIMS = {"first allreduce": 0.5, "import horovod": 0.03}


def first_allreduce(ranks: int) -> float:
    """Seconds from the start of horovodrun until the last rank has its first result.

    Raises:
        subprocess.CalledProcessError: the job failed.
    """
    command = [sys.executable, "-m", "horovod.runner", "-np", str(ranks)]
    before = time.clock_gettime(time.CLOCK_MONOTONIC)
    done = subprocess.run(
        [*command, sys.executable, "-c", FIRST_ALLREDUCE],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    ends = [float(line.split()[-1]) for line in done.stdout.splitlines() if "DONE" in line]
    return max(ends) - before


def import_time(module: str) -> float:
    """Seconds that an import takes in a fresh interpreter."""
    command = [sys.executable, "-c", IMPORT.format(module)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main(arguments: Sequence[str]) -> int:
    made = argparse.ArgumentParser(description="Time the start of a job and of the package.")
    made.add_argument("--rounds", type=int, default=9, help="starts of each kind (9)")
    made.add_argument("--ranks", type=int, default=2)
    options = made.parse_args(arguments)
    seconds: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        seconds.setdefault("first allreduce", []).append(first_allreduce(options.ranks))
        for module in ("horovod", "horovod.array", "torch"):
            seconds.setdefault(f"import {module}", []).append(import_time(module))
    print(f"{options.ranks} ranks, {options.rounds} starts, load {os.getloadavg()[0]:.1f}; seconds")
    for what, values in seconds.items():
        median, ordered = statistics.median(values), sorted(values)
        quarter = len(ordered) // 4
        judged = ""
        if (aim := AIMS.get(what)) is not None:
            judged = f"  {'met' if median <= aim else 'MISSED'}: at most {aim}"
        print(
            f"{what:>22}  {median:.3f}"
            f" ({ordered[quarter]:.3f} .. {ordered[-1 - quarter]:.3f}){judged}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
