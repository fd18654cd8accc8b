"""Ends while a daemon thread of rank 0 waits; says whether that has come back from the library."""
# ruff: noqa: T201 - the test reads what is printed

import atexit
import threading
import time

import numpy as np

import horovod.array as hvd
from horovod._loader import _bindings

back = threading.Event()


def wait_for(name: str) -> None:
    try:
        hvd.allreduce(np.ones(4), name=name)
    except (hvd.HorovodInternalError, ValueError):
        back.set()


def report() -> None:
    print("back" if back.is_set() else "inside", flush=True)


# Before the library's own, and so after it when the process ends.
atexit.register(report)
hvd.init()
if hvd.rank() == 0:
    threading.Thread(target=wait_for, args=("only here",), daemon=True).start()
    while not _bindings.threads_inside():
        time.sleep(0.01)
else:
    wait_for("only there")
