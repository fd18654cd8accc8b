"""Adasum: adds gradients where they are orthogonal and averages them where they are parallel.

Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021. Ranks are
combined pairwise in a binary tree, so their number must be a power of two.
"""

import sys
from collections.abc import Sequence

import torch

from horovod.common.util import num_rank_is_power_2

NOT_A_POWER_OF_2 = "Running Adasum with non-power of 2 ranks is not supported yet."
_SMALLEST_NORM = sys.float_info.min**0.5  # of a squared norm that is not taken as zero


def require_power_of_2(size: int) -> None:
    """Refuses numbers of ranks that make no binary tree.

    Raises:
        NotImplementedError: with Horovod's text.
    """
    if not num_rank_is_power_2(size):
        raise NotImplementedError(NOT_A_POWER_OF_2)


def require_combinable(tensors: Sequence[torch.Tensor], size: int) -> None:
    """Refuses tensors, and numbers of their ranks, that have no adaptive sum.

    Raises:
        NotImplementedError: as of `require_power_of_2`.
        ValueError: a tensor holds no floating-point numbers.
    """
    require_power_of_2(size)
    for tensor in tensors:
        if not tensor.dtype.is_floating_point:
            raise ValueError(f"Adasum adds floating-point tensors, not {tensor.dtype}")


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
