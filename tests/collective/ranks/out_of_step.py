"""Rank 0 starts one unnamed operation more than rank 1; what follows is said by each."""
# ruff: noqa: T201 - the test reads what is printed

import signal
import sys

import numpy as np

import horovod.array as hvd


def one_more(count: int) -> None:
    """The call that not all ranks make."""
    if hvd.rank() == 0:
        hvd.allreduce_(np.ones(count, np.float32))  # extra


def mismatch() -> None:
    """The next one has another shape."""
    try:
        one_more(5)
        if hvd.rank() == 1:
            hvd.allreduce_(np.ones(7, np.float32))  # next
    except hvd.HorovodInternalError as error:
        print(str(error).replace("\n", " "))
    # The job goes on, and the ranks have started as many now.
    print(hvd.allreduce(np.ones(2, np.float32), op=hvd.Sum).tolist())


def mismatch_of_handles() -> None:
    """The same, where the ranks wait elsewhere than they have started it."""
    handle = hvd.allreduce_async(np.ones(5 + hvd.rank(), np.float32))
    try:
        hvd.synchronize(handle)  # waits
    except hvd.HorovodInternalError as error:
        print(str(error).replace("\n", " "))


def barrier() -> None:
    """Rank 0 has not asked for the result of the one more."""
    handles = [hvd.allreduce_async(np.ones(3, np.float32)) for _ in range(4 - hvd.rank())]
    hvd.barrier()
    for handle in handles[:3]:
        hvd.synchronize(handle)
    print("passed")


def end() -> None:
    """Rank 1 comes to the end, before or while rank 0 is in its last one."""
    for _ in range(3):
        hvd.allreduce(np.ones(3, np.float32))
    try:
        one_more(3)
    except hvd.HorovodInternalError as error:
        print(str(error).replace("\n", " "))


def end_with_handles() -> None:
    """Rank 1 comes to the end, while rank 0 has a handle that it has asked about."""
    handles = [hvd.allreduce_async(np.ones(3, np.float32)) for _ in range(4 - hvd.rank())]
    hvd.poll(handles[-1])
    hvd.allreduce(np.ones(3, np.float32), name="last")
    try:
        for handle in handles:
            hvd.synchronize(handle)
    except hvd.HorovodInternalError as error:
        print(str(error).replace("\n", " "))


def stall() -> None:
    """Rank 1 waits in another operation, for which rank 0 does not come."""
    for _ in range(2):
        hvd.allreduce(np.ones(3, np.float32))
    try:
        one_more(3)
        if hvd.rank() == 1:
            hvd.broadcast(np.ones(3, np.float32), 0)
    except hvd.HorovodInternalError as error:
        print(str(error).replace("\n", " "))


def after_a_join() -> None:
    """Fewer on a rank that joins are no mistake, and nothing is out of step afterwards."""
    for again in range(2):
        for _ in range(3 - 2 * hvd.rank()):
            hvd.allreduce(np.ones(3, np.float32))
        hvd.join()
        handle = hvd.allreduce_async(np.ones(3 + again, np.float32), op=hvd.Sum)
        print(hvd.synchronize(handle).tolist())
        print(hvd.allreduce(np.ones(2, np.float32), op=hvd.Sum).tolist())


signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
hvd.init()
for case in sys.argv[1:]:
    globals()[case]()
hvd.shutdown()
