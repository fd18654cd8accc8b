"""Torch tensors as the memory that collectives work on, and results as torch tensors."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.dlpack import from_dlpack

from horovod._collectives import DTYPES, Operand

if TYPE_CHECKING:
    from horovod._native import _bindings

NAMES: dict[torch.dtype, str] = {getattr(torch, name): name for name in DTYPES}


def operand(tensor: torch.Tensor) -> Operand:
    """The memory of a tensor that `contiguous` has returned."""
    return Operand(tensor.data_ptr(), tuple(tensor.shape), NAMES[tensor.dtype], tensor)


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its history, or a contiguous copy of it.

    Raises:
        TypeError: it is no torch tensor.
        ValueError: its type, layout or device is not supported.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"horovod.torch works on torch tensors, not on {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise ValueError(
            f"Tensors on {tensor.device} are not supported yet by horovod-variants; move the tensor"
            " to the CPU first (tensor.cpu())."
        )
    if tensor.layout != torch.strided:
        raise ValueError(f"Tensor layout {tensor.layout} is not supported; pass a dense tensor.")
    if tensor.dtype not in NAMES:
        raise ValueError(f"Tensor type {tensor.type()} is not supported.")
    return tensor.detach().resolve_neg().contiguous()


def new_result(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous memory of a tensor's shape and type for a result."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def copying_back(work: torch.Tensor, target: torch.Tensor) -> Callable[[Any], torch.Tensor]:
    """What finishes an operation in place: the target, filled from the copy that was worked on."""

    def finish(_: Any) -> torch.Tensor:
        if work.data_ptr() != target.data_ptr():
            with torch.no_grad():
                target.copy_(work)
        return target

    return finish


def from_buffer(buffer: "_bindings.Buffer") -> torch.Tensor:
    """A tensor over memory that the core has allocated."""
    return from_dlpack(buffer)
