"""Sparse tensors summed over all ranks: their indices and values are gathered, not reduced."""

import functools
from collections.abc import Callable

import torch

from horovod._reduce_op import Average, Sum
from horovod.common.exceptions import HorovodInternalError
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
        HorovodInternalError: in what is returned: the ranks' tensors are of different shapes.
    """
    if tensor.layout != torch.sparse_coo:
        raise ValueError(f"sparse_allreduce_async takes sparse COO tensors, not {tensor.layout}")
    if op not in (Average, Sum):
        raise ValueError("sparse_allreduce_async supports only hvd.Average and hvd.Sum")
    entries = tensor.detach()
    parts = {
        "indices": _told(entries),
        "values": entries._values(),  # noqa: SLF001 - of tensors that are not coalesced
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
        # The entries come from tensors that were in order; without the word, PyTorch warns.
        return torch.sparse_coo_tensor(
            _places(indices, entries),
            values,
            entries.shape,
            device=values.device,
            check_invariants=False,
        )

    return finish


def _told(entries: torch.Tensor) -> torch.Tensor:
    """A row for the shape, as numbers below 0, and one for each entry: where it is."""
    places = entries._indices().t()  # noqa: SLF001 - of tensors that are not coalesced
    shape = [-1 - size for size in entries.shape[: entries.sparse_dim()]]
    return torch.cat([torch.tensor([shape], dtype=places.dtype, device=places.device), places])


def _places(told: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
    """Where the entries of all ranks are; each in a column.

    Raises:
        HorovodInternalError: the ranks' tensors are of different shapes; on all ranks.
    """
    rows = told.reshape(-1, entries.sparse_dim())
    of_shapes = rows[:, 0] < 0
    shapes = (-1 - rows[of_shapes]).tolist()
    for shape in shapes:
        if shape != shapes[0]:
            raise HorovodInternalError(
                "Mismatched sparse_allreduce tensor shapes: One rank sent a tensor of shape"
                f" {shapes[0]}, but another rank sent a tensor of shape {shape}, not counting the"
                " dimensions of its values."
            )
    return rows[~of_shapes].t()
