"""Rank 0, which coordinates, is killed while rank 1 waits."""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal

import numpy as np

import horovod.array as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)
hvd.init()
if hvd.rank() == 0:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(np.ones(2))
except hvd.HorovodInternalError as error:
    print(f"failed: {error}")
