"""Counts elastically, without any framework; rank 1 dies once when it has counted to five."""
# ruff: noqa: T201 - the test reads what is printed

import array
import os
import signal

import horovod.array as hvd
from horovod.common.elastic import ObjectState, run_fn


def reset() -> None:
    hvd.shutdown()
    hvd.init()


def count(state: ObjectState) -> list[int]:
    while len(state.sizes) < 10:
        ones = hvd.allreduce(array.array("d", [1.0]), op=hvd.Sum)
        state.sizes.append(int(ones[0]))
        if len(state.sizes) == 5 and hvd.size() == 2 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        state.commit()
    sizes: list[int] = state.sizes
    return sizes


hvd.init()
everything = ObjectState(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, sizes=[])
print(*run_fn(count, reset)(everything))
