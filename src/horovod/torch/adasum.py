"""Adasum: adds gradients where they are orthogonal and averages them where they are parallel.

Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021. Ranks are
combined pairwise in a binary tree, so their number must be a power of two.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod._given_numbers import checked_factor
from horovod._reduce_op import Sum, require_power_of_2
from horovod.common.process_sets import ProcessSet, registered_id, size_of
from horovod.torch.operands import keep_for_this_stream, operand, put_back

_SMALLEST_NORM = sys.float_info.min**0.5  # of a squared norm that is not taken as zero


def adds_adaptively(tensors: Sequence[torch.Tensor], size: int) -> bool:
    """Whether the core adds tensors of so many ranks, which it does on the CPU alone.

    Raises:
        NotImplementedError: the number of ranks is not a power of two.
        ValueError: a tensor holds no floating-point numbers.
    """
    require_power_of_2(size)
    for tensor in tensors:
        if not tensor.dtype.is_floating_point:
            raise ValueError(f"Adasum adds floating-point tensors, not {tensor.dtype}")
    return all(tensor.is_cpu for tensor in tensors)


def gather_and_combine(
    tensors: Sequence[torch.Tensor],
    finish: Callable[[list[torch.Tensor]], Any],
    name: str | None,
    factors: tuple[float, float],
    process_set: ProcessSet,
) -> int:
    """Gathers all ranks' tensors and combines them on each, the same on all: the GPU's way.

    Args:
        tensors: of one device, contiguous.
        finish: makes a result of their adaptive sums.
        name: of the operation.
        factors: by which the tensors and the sums are multiplied.
        process_set: whose ranks take part.

    Returns:
        A handle for `synchronize`.
    """
    before, after = map(checked_factor, ("prescale_factor", "postscale_factor"), factors)
    registered, rank = registered_id(process_set), process_set.rank() or 0
    everyones = [_with_own_row(tensor, rank, size_of(process_set)) for tensor in tensors]
    # An allgather is nothing for ranks that have joined, and a sum of bytes of which all but one
    # are zero is that one.
    places = [operand(rows.flatten().view(torch.uint8)) for rows in everyones]

    def combined(_: Any) -> Any:
        sums = [combine_all(rows.mul_(before).unbind()).mul_(after) for rows in everyones]
        keep_for_this_stream(everyones)
        return finish(sums)

    return COLLECTIVES.grouped_allreduce(
        places,
        places,
        combined,
        name=name,
        op=Sum,
        prescale=1.0,
        postscale=1.0,
        process_set=registered,
    )


def _with_own_row(tensor: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    """A row for each rank's tensor, of zeros but for this rank's."""
    rows = torch.zeros((size, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
    rows[rank].copy_(tensor)
    return rows


def copied(result: torch.Tensor, target: torch.Tensor | None) -> torch.Tensor:
    """The target of an operation in place, which takes the result; else the result."""
    if target is None:
        return result
    put_back(target, result)
    return target


def combine(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The adaptive sum of two tensors: each less half of what it has in common with the other."""
    a, b = left.double().flatten(), right.double().flatten()
    dot = torch.dot(a, b)
    a_norm, b_norm = torch.dot(a, a), torch.dot(b, b)
    one = torch.ones_like(dot)
    a_factor = torch.where(a_norm >= _SMALLEST_NORM, 1 - dot / (2 * a_norm), one)
    b_factor = torch.where(b_norm >= _SMALLEST_NORM, 1 - dot / (2 * b_norm), one)
    return (a_factor * a + b_factor * b).to(left.dtype).reshape(left.shape)


def combine_all(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The adaptive sum of a power of two of tensors, ranks 0 and 1 first, then their pairs."""
    level = list(tensors)
    while len(level) > 1:
        level = [combine(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
    return level[0]
