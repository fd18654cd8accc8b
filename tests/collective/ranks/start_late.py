"""Rank 1 does not come to `init`."""

import os
import signal
import sys

import horovod.array as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.environ["HOROVOD_RANK"] == "1":
    signal.pause()
try:
    hvd.init()
except hvd.HorovodInternalError as error:
    print(f"failed: {error}")
    sys.exit(4)
