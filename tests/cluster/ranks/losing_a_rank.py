"""Rank 1 is lost, as when the system kills it; the others say what they are told."""

import array
import os
import signal
import sys

import horovod.array as hvd

hvd.init()
numbers = array.array("f", [1.0] * 1000)
hvd.allreduce(numbers)
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        hvd.allreduce(numbers)
except hvd.HorovodInternalError as error:
    sys.stdout.write(f"rank {hvd.rank()}: {error}\n")
    sys.exit(1)
