"""Rank 1 kills itself between operations; the others say what they are told, and end well."""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal
import sys

import numpy as np

import horovod.array as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
hvd.init()
values = np.ones(100_000, np.float32)
for turn in range(1000):
    if hvd.rank() == 1 and turn == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        hvd.allreduce_(values, op=hvd.Max)
    except hvd.HorovodInternalError as error:
        print(f"failed: {error}")
        break
try:
    hvd.allreduce_(values)
except hvd.HorovodInternalError as error:
    print(f"and again: {error}")
sys.exit(0)
