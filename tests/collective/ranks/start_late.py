"""Rank 1 does not come to `init`."""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal
import sys

import horovod.array as hvd

if os.environ["HOROVOD_RANK"] == "1":
    signal.pause()
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher may not end this one early
try:
    hvd.init()
except hvd.HorovodInternalError as error:
    print(f"failed: {error}")
    sys.exit(4)
