"""Says where this rank is, what it computed with the others, and what it was given."""
# ruff: noqa: T201 - the test reads what is printed

import os

import numpy as np

import horovod.array as hvd
from horovod._session import SESSION

hvd.init()
total = float(hvd.allreduce(np.array([hvd.rank() + 1.0]), op=hvd.Sum)[0])
print(
    f"{hvd.rank()}/{hvd.size()} local {hvd.local_rank()}/{hvd.local_size()}",
    f"cross {hvd.cross_rank()}/{hvd.cross_size()}",
    SESSION.member.runtime.transport,
    f"sum {total}",
    os.environ.get("MINE"),
    os.environ.get("CUDA_VISIBLE_DEVICES"),
    os.environ["HOROVOD_HOSTNAME"],
)
print(os.getcwd())  # noqa: PTH109 - as the system says it
print(os.environ.get("OMP_NUM_THREADS"))
