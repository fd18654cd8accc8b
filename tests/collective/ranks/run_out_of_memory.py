"""Rank 1 may take no more memory than it has, and cannot hold what all ranks gather."""
# ruff: noqa: T201 - the test reads what is printed

import resource
from pathlib import Path

import numpy as np

import horovod.array as hvd

hvd.init()
own = np.zeros(100_000_000 if hvd.rank() == 0 else 1, np.int16)
hvd.barrier()
if hvd.rank() == 1:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 20_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    hvd.allgather(own)
except hvd.HorovodInternalError as error:
    print(error, flush=True)
