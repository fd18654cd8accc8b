"""Rank 1 kills itself in the middle of things; the others would go on for ever."""

import array
import os
import signal
import sys

import horovod.array as hvd
from horovod.common.exceptions import HorovodInternalError

hvd.init()
data = array.array("f", [1.0]) * 100_000
for step in range(1_000_000):
    if step == 20 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        hvd.allreduce(data, op=hvd.Sum)
    except HorovodInternalError as error:
        sys.stderr.write(f"rank {hvd.rank()}: {error}\n")
        raise
