"""Collectives on arrays of any kind: NumPy, `array.array`, buffers, and whatever speaks DLPack.

    import horovod.array as hvd

NumPy arrays give NumPy arrays and `array.array` gives `array.array`; an object with `__dlpack__`
and `__array_namespace__` gives what that namespace's `from_dlpack` makes; anything else gives a
`Buffer`, which has the buffer protocol and DLPack. NumPy need not be installed.
"""

from typing import Any

from horovod import _objects
from horovod._given_numbers import checked_root
from horovod._loader import _bindings
from horovod._reduce_op import Adasum, Average, Max, Min, Product, Sum
from horovod.array.grouped import (
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
)
from horovod.array.redistribution import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
)
from horovod.array.reductions import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    reducescatter,
    reducescatter_async,
)
from horovod.array.shared_memory import shared_empty
from horovod.array.waiting import barrier, join, poll, synchronize
from horovod.common.basics import HorovodBasics
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    registered_id,
    remove_process_set,
)

_basics = HorovodBasics()

Buffer = _bindings.Buffer

init = _basics.init
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
size = _basics.size
local_size = _basics.local_size
cross_size = _basics.cross_size
rank = _basics.rank
local_rank = _basics.local_rank
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends the root's object to all ranks, pickled; the others' are not looked at."""
    root = checked_root(root_rank)
    return _objects.broadcast_object(obj, root, name, registered_id(process_set))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Collects one object of every rank; returns them by rank."""
    return _objects.allgather_object(obj, name)


__all__ = [
    "Adasum",
    "Average",
    "Buffer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "shared_empty",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
