"""Rank 1 ends with an exception while the others wait for it."""

import signal
import sys

import numpy as np

import horovod.array as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    sys.exit("rank 1 has had enough")
hvd.allreduce(np.ones(2), name="never")
