"""Arrays in memory that all ranks of a host map."""

import contextlib
import operator
import sys
from collections.abc import Iterable
from typing import Any, SupportsIndex

from horovod._collectives import COLLECTIVES
from horovod.array.exporters import array_over, type_name
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id


def shared_empty(
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: Any = "float32",
    process_set: ProcessSet = global_process_set,
    name: str | None = None,
) -> Any:
    """Makes an array on every rank, in memory that all ranks of a host map; all ranks call it.

    An allreduce in place of this array, or of the same part of it on all ranks, reads and writes
    the ranks' memory directly, without copies in between. Where ranks do not share memory, it is an
    ordinary array, and the results are the same. The memory stays as long as anything uses it.

    Args:
        shape: the same on all ranks.
        dtype: a type of NumPy's for a NumPy array; the name of a type, such as "bfloat16", for a
            `Buffer`, which has the buffer protocol and DLPack.
        process_set: whose ranks make the array; it serves allreduces of these or some of them.
        name: the same on all ranks; without it, they must make their arrays in the same order.

    Raises:
        TypeError: the shape is neither a whole number nor a sequence of whole numbers.
        ValueError: the type is not supported; a size is negative, or their product too large.
        HorovodInternalError: the ranks asked for different shapes or types; or a rank has no memory
            for it, which ends the job unless it is more than the machine has.
    """
    sizes = _sizes(shape)
    numpy = None if isinstance(dtype, str) else sys.modules.get("numpy")
    buffer = COLLECTIVES.share_memory(
        sizes, type_name(numpy, dtype), name=name, process_set=registered_id(process_set)
    )
    return buffer if numpy is None else array_over(numpy, buffer, numpy.dtype(dtype))


def _sizes(shape: Any) -> tuple[int, ...]:
    """The sizes that a shape stands for; NumPy's whole numbers are taken as Python's."""
    with contextlib.suppress(TypeError):
        return (operator.index(shape),)
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(
            f"a shape is a whole number or a sequence of whole numbers, not {shape!r}"
        ) from None
