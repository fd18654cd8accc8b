"""Tensors in memory that all ranks of a host map."""

from collections.abc import Sequence
from typing import cast

import torch

from horovod._collectives import COLLECTIVES
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id
from horovod.torch.operands import NAMES, from_buffer


def shared_empty(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    process_set: ProcessSet = global_process_set,
    name: str | None = None,
) -> torch.Tensor:
    """Makes a tensor on every rank, in memory that all ranks of a host map; all ranks call it.

    An allreduce in place of this tensor, or of the same part of it on all ranks, reads and writes
    the ranks' memory directly, without copies in between: `allreduce_`, `allreduce_async_`, and
    groups of such tensors. Everything else works as with any tensor. Where ranks do not share
    memory, it is an ordinary tensor, and the results are the same.

    The memory stays as long as any tensor uses it, also after `shutdown()`, when it is reduced like
    any other memory.

    Args:
        size: as of `torch.empty`; the same on all ranks.
        dtype: PyTorch's default type if it is None.
        process_set: whose ranks make the tensor; it serves allreduces of these or some of them.
        name: the same on all ranks; without it, they must make their tensors in the same order.

    Returns:
        A tensor on the CPU, all zeros.

    Raises:
        ValueError: the type is not supported; a size is negative, or their product too large.
        HorovodInternalError: the ranks asked for different sizes or types; or a rank has no memory
            for it, which ends the job unless it is more than the machine has.
    """
    first = size[0] if len(size) == 1 else None
    shape = first if isinstance(first, Sequence) else cast("tuple[int, ...]", size)
    chosen = torch.get_default_dtype() if dtype is None else dtype
    if chosen not in NAMES:
        raise ValueError(f"Tensor type {chosen} is not supported.")
    buffer = COLLECTIVES.share_memory(
        torch.Size(shape),
        NAMES[chosen],
        name=name,
        process_set=registered_id(process_set),
    )
    return from_buffer(buffer)
