"""Allreduce and reducescatter of one array."""

from typing import Any

from horovod._collectives import COLLECTIVES
from horovod._reduce_op import Adasum, Average, choose_op, require_power_of_2
from horovod.array.exporters import export, receiving
from horovod.array.waiting import synchronize
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id, size_of


def _start_allreduce(
    tensor: Any,
    name: str | None,
    op: int | None,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    *,
    in_place: bool,
    waits: bool = False,
) -> int:
    op = choose_op(op, average=None, adasum=True)
    if op == Adasum:
        require_power_of_2(size_of(process_set))
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
        waits=waits,
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
        op: Average (default), Sum, Min, Max, Product or Adasum.
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
    factors = (prescale_factor, postscale_factor)
    return synchronize(
        _start_allreduce(tensor, name, op, *factors, process_set, in_place=False, waits=True)
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
    factors = (prescale_factor, postscale_factor)
    return synchronize(
        _start_allreduce(tensor, name, op, *factors, process_set, in_place=True, waits=True)
    )


def _start_reducescatter(
    tensor: Any,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    output: Any,
    *,
    waits: bool,
) -> int:
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
        waits=waits,
    )


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
    factors = (prescale_factor, postscale_factor)
    return _start_reducescatter(tensor, name, op, *factors, process_set, output, waits=False)


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
    return synchronize(
        _start_reducescatter(tensor, name, op, *factors, process_set, output, waits=True)
    )
