"""Waiting for operations on torch tensors."""

from typing import Any

import torch

from horovod.torch.started import STARTED


def poll(handle: int) -> bool:
    """Whether an operation is done, so that `synchronize` returns at once."""
    return STARTED.poll(handle)


def result_of(handle: int) -> torch.Tensor:
    """Waits for an operation whose result is one tensor."""
    result: torch.Tensor = synchronize(handle)
    return result


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result; None for a handle that is not known.

    Raises:
        HorovodInternalError: the operation failed on all ranks, or a rank was lost.
    """
    return STARTED.synchronize(handle)
