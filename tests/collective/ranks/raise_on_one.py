"""Rank 1 ends with an exception while the others wait for it."""

import sys

import numpy as np

import horovod.array as hvd

hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    sys.exit("rank 1 has had enough")
hvd.allreduce(np.ones(2), name="never")
