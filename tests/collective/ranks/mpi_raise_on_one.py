"""Rank 1 ends by an exception while the other one, which waits for nothing of it, never does."""

import signal

import horovod.array as hvd

hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    raise RuntimeError("rank 1 has had enough")
while True:
    signal.pause()
