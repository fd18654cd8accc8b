"""Calls `init()` outside of the guard, and has multiprocessing start children that come to it, too.

Arguments: the start method, or "none"; what the children do; how many each rank has.
"""
# ruff: noqa: T201 - the test reads what is printed

import json
import multiprocessing
import os
import subprocess
import sys

import numpy as np

import horovod.array as hvd

lone = hvd.ProcessSet([1])
hvd.init(process_sets=[] if "ALONE" in os.environ else [lone])
if "RECORDED" in os.environ:
    hvd.start_timeline(os.environ["RECORDED"])
hvd.stop_timeline()


def place(_: int) -> list[object]:
    hvd.init()  # as a function that a loader of data calls does
    return [
        hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(),
        hvd.cross_size(), hvd.is_homogeneous(), hvd.is_initialized(), lone.included(),
        hvd.global_process_set.rank(), hvd.global_process_set.size(), lone.size(),
    ]  # fmt: skip


def add_up(_: int) -> list[object]:
    if lone.included():  # whose number is known when the job has been joined
        hvd.allreduce(np.ones(1), process_set=lone)
    return [float(hvd.allreduce(np.array([hvd.rank() + 1.0]), op=hvd.Sum)[0]), lone.size()]


def try_to_add_up(_: int) -> list[object]:
    said: list[object] = []
    for _once_and_again in range(2):
        try:
            return add_up(_)
        except (hvd.HorovodInternalError, RuntimeError) as error:  # noqa: PERF203 - the second counts
            said = [type(error).__name__, str(error), hvd.rank()]
    return said


def leave_and_come_back(_: int) -> list[object]:
    hvd.shutdown()
    left = hvd.is_initialized()
    hvd.init()
    return [left, hvd.rank()]


def run_a_job(_: int) -> list[str]:
    """Of another program, by a process that has a place to offer."""
    program = "import horovod.array as hvd; hvd.init(); print(hvd.rank(), hvd.size())"
    command = [sys.executable, "-m", "horovod.runner", "-np", "2", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(done.stdout.splitlines())


def run_a_program(_: int) -> list[str]:
    """Which calls `init()`, and has this rank's variables."""
    program = "import horovod.array as hvd; hvd.init()"
    environment = {**os.environ, "HOROVOD_START_TIMEOUT": "3"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return [str(done.returncode), done.stderr.splitlines()[-1]]


if __name__ == "__main__":
    method, work, *counts = sys.argv[1:]
    mine = int(counts[hvd.rank()])
    results = []
    if mine and method == "none":
        results = [globals()[work](0)]
    elif mine:
        with multiprocessing.get_context(method).Pool(mine) as pool:
            results = pool.map(globals()[work], range(mine), chunksize=1)
    total = float(hvd.allreduce(np.ones(1), op=hvd.Sum)[0])
    print(json.dumps([results, total, os.getpid()]))
