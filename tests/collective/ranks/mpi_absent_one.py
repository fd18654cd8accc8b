"""Rank 1 never calls `init()`, and does not end."""

import os
import signal
import sys

import horovod.array as hvd

if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    signal.pause()
sys.stdout.write("rank 0 is on its way\n")
hvd.init()
