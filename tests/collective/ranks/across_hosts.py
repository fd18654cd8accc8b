"""Says over what the ranks reach each other, sums until a rank is lost, says what it was told.

Usage: across_hosts.py TURNS; 0 for no end. After ten turns a line tells whoever cuts the network.
"""
# ruff: noqa: T201 - the test reads what is printed

import itertools
import signal
import sys

import numpy as np

import horovod.array as hvd
from horovod._session import SESSION

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
turns = int(sys.argv[1])
hvd.init()
print(f"transport: {SESSION.member.runtime.transport}", flush=True)
try:
    for turn in range(turns) if turns else itertools.count():
        values = np.full(100_000, hvd.rank() + turn, np.float32)
        total = hvd.allreduce(values, op=hvd.Sum, name="sum")
        expected = hvd.size() * turn + sum(range(hvd.size()))
        if not (total == expected).all():
            print(f"turn {turn}: wrong")
        gathered = hvd.allgather(np.arange(hvd.rank() + turn % 3), name="gather")
        if len(gathered) != sum(rank + turn % 3 for rank in range(hvd.size())):
            print(f"turn {turn}: {len(gathered)} elements gathered")
        if turn == 10:
            print("under way", flush=True)
    print("done")
except hvd.HorovodInternalError as error:
    print(f"failed: {error}")
