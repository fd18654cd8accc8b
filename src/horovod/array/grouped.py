"""Collectives on several arrays at once: they run together once all ranks have asked for all."""

from collections.abc import Sequence
from typing import Any

from horovod._collectives import COLLECTIVES
from horovod._reduce_op import Adasum, Average, choose_op, require_power_of_2
from horovod.array.exporters import Exported, apart, export
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id, size_of


def _start_allreduce(
    tensors: Sequence[Any],
    name: str | None,
    op: int | None,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    *,
    in_place: bool,
) -> int:
    op = choose_op(op, average=None, adasum=True)
    if op == Adasum:
        require_power_of_2(size_of(process_set))
    tensors = list(tensors)
    exported = [export(tensor) for tensor in tensors]
    if in_place:
        exported = apart([item.require_in_place() for item in exported])
        destinations = [item.operand for item in exported]
        results = tensors
    else:
        pairs = [item.new() for item in exported]
        destinations = [operand for operand, _ in pairs]
        results = [result for _, result in pairs]

    def finish(_: Any) -> list[Any]:
        if in_place:
            for item in exported:
                item.write_back()
        return results

    return COLLECTIVES.grouped_allreduce(
        [item.operand for item in exported],
        destinations,
        finish,
        name=name,
        op=op,
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
    )


def grouped_allreduce_async(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts reducing several arrays over all ranks into new ones.

    Args:
        tensors: the same shapes and types in the same order on all ranks.
        name: of the group, the same on all ranks; without it, unnamed operations must start in the
            same order.
        op: Average (default), Sum, Min, Max, Product or Adasum.
        prescale_factor: multiplies the arrays before the reduction.
        postscale_factor: multiplies the results.
        process_set: whose ranks take part.

    Returns:
        A handle; `synchronize` gives the list of results.
    """
    return _start_allreduce(
        tensors, name, op, prescale_factor, postscale_factor, process_set, in_place=False
    )


def grouped_allreduce_async_(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `grouped_allreduce_async`, in place."""
    return _start_allreduce(
        tensors, name, op, prescale_factor, postscale_factor, process_set, in_place=True
    )


def grouped_allreduce(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Reduces several arrays over all ranks; arguments as of `grouped_allreduce_async`."""
    return _results(
        grouped_allreduce_async(tensors, name, op, prescale_factor, postscale_factor, process_set)
    )


def grouped_allreduce_(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Like `grouped_allreduce`, in place."""
    return _results(
        grouped_allreduce_async_(tensors, name, op, prescale_factor, postscale_factor, process_set)
    )


def grouped_allgather_async(
    tensors: Sequence[Any],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts joining all ranks' arrays along the first dimension, several at once."""
    exported = [export(tensor) for tensor in tensors]
    return COLLECTIVES.grouped_allgather(
        [item.operand for item in exported],
        lambda buffers: _wrap(exported, buffers),
        name=name,
        process_set=registered_id(process_set),
    )


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Joins all ranks' arrays along the first dimension, several at once."""
    return _results(grouped_allgather_async(tensors, name, process_set))


def grouped_reducescatter_async(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts several reductions of which each rank gets a part; arguments as of `reducescatter`."""
    exported = [export(tensor) for tensor in tensors]
    return COLLECTIVES.grouped_reducescatter(
        [item.operand for item in exported],
        lambda buffers: _wrap(exported, buffers),
        name=name,
        op=choose_op(op, average=None),
        prescale=prescale_factor,
        postscale=postscale_factor,
        process_set=registered_id(process_set),
    )


def grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Reduces several arrays and gives each rank its share of the rows of each."""
    return _results(
        grouped_reducescatter_async(
            tensors, name, op, prescale_factor, postscale_factor, process_set
        )
    )


def _wrap(exported: Sequence[Exported], buffers: Sequence[Any]) -> list[Any]:
    return [item.wrap(buffer) for item, buffer in zip(exported, buffers, strict=True)]


def _results(handle: int) -> list[Any]:
    results: list[Any] = COLLECTIVES.synchronize(handle)
    return results
