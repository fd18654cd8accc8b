"""Objects of which rank 0's is changed on its way, as somebody between two hosts could do."""
# ruff: noqa: T201 - the test reads what is printed

from collections.abc import Callable

import numpy as np

import horovod.array as hvd
from horovod import _objects
from horovod._loader import _bindings

hvd.init()
print(
    hvd.local_size(), hvd.broadcast_object({"from": hvd.rank()}), hvd.allgather_object(hvd.rank())
)
fill = _objects._filled


def fill_and_change(parts: tuple[bytes, ...]) -> "_bindings.Buffer":
    buffer = fill(parts)
    mark, pickled, _ = parts
    np.asarray(memoryview(buffer))[len(mark) + len(pickled) // 2] ^= 1
    return buffer


def say(send: Callable[[object], object]) -> None:
    try:
        print(send(["text"]))
    except hvd.HorovodInternalError as error:
        print(error)


if hvd.rank() == 0:
    _objects._filled = fill_and_change
say(hvd.broadcast_object)
say(hvd.allgather_object)
print(hvd.allreduce(np.ones(1), op=hvd.Sum)[0])
