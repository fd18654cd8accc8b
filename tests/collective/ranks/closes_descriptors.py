"""Closes what it has open after `init`, as code that makes daemons does, on one rank; uses all."""
# ruff: noqa: T201 - the test reads what is printed

import os
import time

import numpy as np

import horovod.array as hvd

PATIENCE = 60.0  # until a thread has noticed it that has nothing to do with these calls

hvd.init()
hvd.allreduce(np.ones(5))
if hvd.rank() == 1:
    os.closerange(3, 1000)


def try_all() -> None:
    for number in range(3):
        try:
            print(number, "returned", use(number))
        except hvd.HorovodInternalError as error:  # noqa: PERF203 - each is tried
            print(number, "raised", error)


def use(number: int) -> object:
    if number == 0:
        return hvd.allreduce(np.ones(4))
    if number == 1:
        return hvd.synchronize(hvd.allreduce_async(np.ones(3), name="x"))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:  # ranks that meet at once need nothing that is closed
        hvd.allgather(np.ones(3))
    return "no error"


try_all()
