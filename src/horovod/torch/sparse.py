"""Sparse tensors summed over all ranks: their indices and values are gathered, not reduced."""

import functools
from collections.abc import Callable

import torch

from horovod._reduce_op import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set, size_of
from horovod.torch.gathering import allgather_async
from horovod.torch.handles import start_all, wait_for_all
from horovod.torch.operands import keep_for_this_stream


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """Starts summing a sparse tensor over all ranks.

    Args:
        tensor: in COO layout, of the same shape on all ranks; ranks may hold different entries.
        name: the same on all ranks, or None.
        op: Average or Sum.
        process_set: whose ranks take part.

    Returns:
        Unlike the other `_async` functions not a handle, but what waits for the result and returns
        it: not coalesced, an entry that several ranks have stands there several times.

    Raises:
        ValueError: the tensor is not in COO layout, or the op is another one.
    """
    if tensor.layout != torch.sparse_coo:
        raise ValueError(f"sparse_allreduce_async takes sparse COO tensors, not {tensor.layout}")
    if op not in (Average, Sum):
        raise ValueError("sparse_allreduce_async supports only hvd.Average and hvd.Sum")
    shape, dimensions = tensor.shape, tensor.sparse_dim()
    entries = tensor.detach()
    # Gathered along the first dimension; indices have the entries in their second.
    parts = {
        "indices": entries._indices().t().contiguous(),  # noqa: SLF001 - of tensors that are not coalesced
        "values": entries._values(),  # noqa: SLF001 - as above
    }
    handles = start_all(
        functools.partial(
            allgather_async, tensor, None if name is None else f"{name}.{part}", process_set
        )
        for part, tensor in parts.items()
    )

    arrived: dict[int, torch.Tensor] = {}

    def finish() -> torch.Tensor:
        indices, values = wait_for_all(handles, arrived)
        keep_for_this_stream((indices, values))
        if op == Average:
            values = values / size_of(process_set)
        where = indices.reshape(-1, dimensions).t()
        # The entries come from tensors that were in order; without the word, PyTorch warns.
        return torch.sparse_coo_tensor(
            where, values, shape, device=values.device, check_invariants=False
        )

    return finish
