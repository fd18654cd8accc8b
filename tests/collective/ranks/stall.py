"""Rank 1 does not come for what rank 0 waits for; both say how the job ends."""
# ruff: noqa: T201 - the test reads what is printed

import signal

import numpy as np

import horovod.array as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
hvd.init()
values = np.ones(1000, np.float32)
hvd.allreduce_(values)
name = "missed" if hvd.rank() == 0 else "another"
try:
    hvd.allreduce_(values, name=name)  # here
except hvd.HorovodInternalError as error:
    print(f"{name} failed: {error}")
