"""Allgather, broadcast and alltoall of one array."""

from typing import TYPE_CHECKING, Any

from horovod._collectives import COLLECTIVES
from horovod._splits import read_splits
from horovod.array.exporters import export, receiving
from horovod.array.waiting import synchronize
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id

if TYPE_CHECKING:
    from horovod._native import _bindings


def _start_allgather(
    tensor: Any, name: str | None, process_set: ProcessSet, output: Any, *, waits: bool
) -> int:
    exported = export(tensor)
    place, finish = receiving(output, exported)
    return COLLECTIVES.allgather(
        exported.operand,
        finish,
        name=name,
        process_set=registered_id(process_set),
        output=place,
        waits=waits,
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
    return _start_allgather(tensor, name, process_set, output, waits=False)


def allgather(
    tensor: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> Any:
    """Joins all ranks' arrays along the first dimension; arguments as of `allgather_async`."""
    return synchronize(_start_allgather(tensor, name, process_set, output, waits=True))


def _start_broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
    *,
    in_place: bool,
    waits: bool = False,
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
        waits=waits,
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
    return synchronize(
        _start_broadcast(tensor, root_rank, name, process_set, in_place=False, waits=True)
    )


def broadcast_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Like `broadcast`, in place."""
    return synchronize(
        _start_broadcast(tensor, root_rank, name, process_set, in_place=True, waits=True)
    )


def _start_alltoall(
    tensor: Any,
    splits: Any,
    name: str | None,
    process_set: ProcessSet,
    output: Any,
    *,
    waits: bool,
) -> int:
    exported = export(tensor)
    rows = read_splits(splits)
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
        waits=waits,
    )


def alltoall_async(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    output: Any = None,
) -> int:
    """Starts sending parts of an array to all ranks; `synchronize` gives what `alltoall` gives."""
    return _start_alltoall(tensor, splits, name, process_set, output, waits=False)


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
    return synchronize(_start_alltoall(tensor, splits, name, process_set, output, waits=True))
