"""Training steps of ranks that share a host's cores, and of ranks that each count all of them.

    python bench/core_shares.py
    python bench/core_shares.py --ranks 4 --rounds 5

Jobs of both kinds take turns. In one, each rank has the threads that horovodrun gives it; in the
other, as many as the host has CPUs, which is what PyTorch takes where nothing says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from turns.rows import duration
from turns.step_times import RESULT
from turns.training import MODELS

KINDS: dict[str, list[str]] = {
    "shared": [],
    "all": [f"OMP_NUM_THREADS={os.cpu_count()}"],
}


def job(ranks: int, words: Sequence[str]) -> dict[str, float]:
    """The threads of a rank, and the median seconds of a step of each model.

    Raises:
        subprocess.CalledProcessError: the job failed.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "horovod.runner", "-np", str(ranks), *words),
            *(sys.executable, "-m", "turns.step_times"),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"},
    )
    told: dict[str, float] = json.loads(done.stdout.partition(RESULT)[2])
    return told


def main(arguments: Sequence[str]) -> int:
    made = argparse.ArgumentParser(description="Time steps of ranks that share a host's cores.")
    made.add_argument("--rounds", type=int, default=5, help="jobs of each kind (5)")
    made.add_argument("--ranks", type=int, default=2)
    options = made.parse_args(arguments)
    told: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind, words in KINDS.items():
            told[kind].append(job(options.ranks, words))
    threads = {kind: int(jobs[0]["threads"]) for kind, jobs in told.items()}
    print(
        f"{options.ranks} ranks on {os.cpu_count()} CPUs, {options.rounds} jobs of each kind,"
        f" load {os.getloadavg()[0]:.1f}; threads of a rank: {threads}"
    )
    for model in MODELS:
        shared, whole = ([one[model] for one in told[kind]] for kind in ("shared", "all"))
        ratios = sorted(a / b for a, b in zip(shared, whole, strict=True))
        print(
            f"{model:>12}  {duration(statistics.median(shared))} of"
            f" {duration(statistics.median(whole))}: {statistics.median(ratios):.2f}"
            f" ({ratios[0]:.2f} .. {ratios[-1]:.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
