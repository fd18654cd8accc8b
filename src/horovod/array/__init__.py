"""Collectives on arrays of any kind: NumPy, `array.array`, buffers, and whatever speaks DLPack.

    import horovod.array as hvd

NumPy arrays give NumPy arrays and `array.array` gives `array.array`; an object with `__dlpack__`
and `__array_namespace__` gives what that namespace's `from_dlpack` makes; anything else gives a
`Buffer`, which has the buffer protocol and DLPack. NumPy need not be installed.
"""

from typing import Any

from horovod import _objects
from horovod._collectives import COLLECTIVES
from horovod._loader import _bindings
from horovod._reduce_op import Adasum, Average, Max, Min, Product, Sum, choose_op
from horovod.array.exporters import export, receiving
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
from horovod.array.shared_memory import shared_empty
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


def _start_allreduce(
    tensor: Any,
    name: str | None,
    op: int | None,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    *,
    in_place: bool,
) -> int:
    op = choose_op(op, average=None)
    exported = export(tensor)
    destination, result = (
        (exported.require_in_place().operand, tensor) if in_place else exported.new()
    )

    def finish(_: Any) -> Any:
        if in_place:
            exported.write_back()
        return result

    return COLLECTIVES.allreduce(
        exported.operand,
        destination,
        finish,
        name=name,
        op=op,
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
    )


def allreduce_async(
    tensor: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts reducing an array over all ranks into a new one.

    Args:
        tensor: same shape and type on all ranks.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        op: Average (default), Sum, Min, Max or Product.
        prescale_factor: multiplies the array before the reduction.
        postscale_factor: multiplies the result.
        process_set: whose ranks take part.

    Returns:
        A handle for `poll` and `synchronize`.
    """
    return _start_allreduce(
        tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=False
    )


def allreduce_async_(
    tensor: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `allreduce_async`, in place: the array must not be touched until `synchronize`."""
    return _start_allreduce(
        tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=True
    )


def allreduce(
    tensor: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Reduces an array over all ranks; arguments as of `allreduce_async`."""
    return synchronize(
        allreduce_async(tensor, name, op, prescale_factor, postscale_factor, process_set)
    )


def allreduce_(
    tensor: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Like `allreduce`, in place."""
    return synchronize(
        allreduce_async_(tensor, name, op, prescale_factor, postscale_factor, process_set)
    )


def allgather_async(
    tensor: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> int:
    """Starts joining all ranks' arrays along the first dimension, in which they may differ.

    Args:
        tensor: same type and shape on all ranks, but for the first dimension.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        process_set: whose ranks take part.
        output: an array of the result's shape and type, apart from `tensor`, which then is what
            `synchronize` returns; not in Horovod, and each rank's own affair. Neither may be
            touched until then.
    """
    exported = export(tensor)
    place, finish = receiving(output, exported)
    return COLLECTIVES.allgather(
        exported.operand,
        finish,
        name=name,
        process_set=registered_id(process_set),
        output=place,
    )


def allgather(
    tensor: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> Any:
    """Joins all ranks' arrays along the first dimension; arguments as of `allgather_async`."""
    return synchronize(allgather_async(tensor, name, process_set, output=output))


def _start_broadcast(
    tensor: Any, root_rank: int, name: str | None, process_set: ProcessSet, *, in_place: bool
) -> int:
    exported = export(tensor)
    destination, result = (
        (exported.require_in_place().operand, tensor) if in_place else exported.new()
    )

    def finish(_: Any) -> Any:
        if in_place:
            exported.write_back()
        return result

    return COLLECTIVES.broadcast(
        exported.operand,
        destination,
        finish,
        root=root_rank,
        name=name,
        process_set=registered_id(process_set),
    )


def broadcast_async(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts sending the root's array to all ranks, into a new one."""
    return _start_broadcast(tensor, root_rank, name, process_set, in_place=False)


def broadcast_async_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `broadcast_async`, in place."""
    return _start_broadcast(tensor, root_rank, name, process_set, in_place=True)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the root's array on all ranks."""
    return synchronize(broadcast_async(tensor, root_rank, name, process_set))


def broadcast_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Like `broadcast`, in place."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall_async(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> int:
    """Starts sending parts of an array to all ranks; `synchronize` gives what `alltoall` gives."""
    exported = export(tensor)
    rows = None if splits is None else [int(count) for count in splits]
    place, receive = receiving(output, exported)

    def finish(received: "_bindings.Buffer | None", received_splits: list[int]) -> Any:
        result = receive(received)
        return result if splits is None else (result, received_splits)

    return COLLECTIVES.alltoall(
        exported.operand,
        finish,
        splits=rows,
        name=name,
        process_set=registered_id(process_set),
        output=place,
    )


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> Any:
    """Sends parts of an array to all ranks and joins the parts that come from them.

    Args:
        tensor: cut along its first dimension; the other dimensions are the same on all ranks.
        splits: how many rows each rank gets, whole numbers; None for the same number each.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        process_set: whose ranks take part.
        output: an array for the parts, as of `allgather_async`.

    Returns:
        The parts in the order of their ranks; with `splits`, also the list of the rows of each.
    """
    return synchronize(alltoall_async(tensor, splits, name, process_set, output=output))


def reducescatter_async(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> int:
    """Starts a reduction of which each rank gets a part; arguments as of `reducescatter`."""
    exported = export(tensor)
    place, finish = receiving(output, exported)
    return COLLECTIVES.reducescatter(
        exported.operand,
        finish,
        name=name,
        op=choose_op(op, average=None),
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
        output=place,
    )


def reducescatter(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> Any:
    """Reduces an array over all ranks and gives each rank its share of the rows.

    Args:
        tensor: same shape and type on all ranks; the first ranks get one row more each when the
            rows are no multiple of the ranks.
        name: the same on all ranks; without it, unnamed operations must start in the same order.
        op: Average (default), Sum, Min, Max or Product.
        prescale_factor: multiplies the array before the reduction.
        postscale_factor: multiplies the result.
        process_set: whose ranks take part.
        output: an array for this rank's share, as of `allgather_async`.
    """
    factors = (prescale_factor, postscale_factor)
    return synchronize(reducescatter_async(tensor, name, op, *factors, process_set, output=output))


def join() -> int:
    """Takes part with zeros in the others' allreduces until all ranks have joined.

    Returns:
        The last rank that joined.
    """
    return COLLECTIVES.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks of a process set have come here."""
    COLLECTIVES.barrier(registered_id(process_set))


def poll(handle: int) -> bool:
    """Whether an operation is done, so that `synchronize` returns at once."""
    return COLLECTIVES.poll(handle)


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result; None for a handle that is not known.

    Raises:
        HorovodInternalError: the operation failed on all ranks, or a rank was lost.
    """
    return COLLECTIVES.synchronize(handle)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends the root's object to all ranks, pickled; the others' are not looked at."""
    return _objects.broadcast_object(obj, root_rank, name, registered_id(process_set))


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
