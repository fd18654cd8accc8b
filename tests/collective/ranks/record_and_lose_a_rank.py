"""Records a timeline from the start on, and others in between; at last rank 1 kills itself."""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import horovod.array as hvd

folder = Path(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
hvd.init()
values = np.ones(1000, np.float32)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    hvd.start_timeline(str(folder / "second.json"))
print(f"ignored: {[str(warning.message) for warning in said]}")
for turn in range(20):
    hvd.allreduce_(values, name=f"before {turn % 2}")
hvd.stop_timeline()
hvd.stop_timeline()
for number in range(3):
    path = folder / "later" / f"{number}.json"
    hvd.barrier()
    hvd.start_timeline(path, mark_cycles=True, all_ranks=number == 1)
    hvd.synchronize(hvd.allreduce_async_(values, name=f"during {number}"))
    hvd.stop_timeline()
try:
    hvd.start_timeline(str(folder / "no such folder" / "x.json"), all_ranks=True)
except OSError as error:
    print(f"not written: {error}")
try:
    hvd.start_timeline("no\0path")
except ValueError as error:
    print(f"no path: {error}")

hvd.start_timeline(str(folder / "last.json"), all_ranks=True)
hvd.synchronize(hvd.allreduce_async_(values, name="the last but one"))
if hvd.rank() == 1:
    # Its thread writes what there is within moments, whatever happens here.
    while "the last but one" not in (folder / "last.rank1.json").read_text():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce_(values, name="the last")
except hvd.HorovodInternalError as error:
    print(f"failed: {error}")
