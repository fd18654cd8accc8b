"""Whose memory a gradient is: a parameter's alone, or also of what the backward pass still reads.

PyTorch makes what arrives at a parameter its gradient without a copy where nobody else has that
tensor. Others may have its memory all the same: what arrives is then a view of what is yet to be
added to for a layer below, or the same numbers as those for another parameter.
"""

import functools
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import torch

# PyTorch's counts of who has a storage, by its address, and a tensor; 2.0 has neither.
_storage_count: Callable[[int], int] = getattr(torch._C, "_storage_Use_Count", int)  # noqa: SLF001 - there is no other way
_tensor_count: Callable[[torch.Tensor], int] = getattr(torch.Tensor, "_use_count", id)
_CAN_COUNT = hasattr(torch._C, "_storage_Use_Count") and hasattr(torch.Tensor, "_use_count")  # noqa: SLF001 - as above


class Memory(Enum):
    """Who has the memory of a gradient."""

    OWN = "the gradient alone"
    SHARED = "other tensors too, which had it before the backward pass"
    LENT = "the backward pass, other gradients, or its own elements too; nothing is written there"
    UNKNOWN = "perhaps other tensors too; it is looked at again before a step writes there"


class _Alone(NamedTuple):
    """How many have what belongs to a gradient that is its parameter's alone.

    Attributes:
        storage: its memory: itself, what has arrived, the latter's base, and who asks.
        base: the tensor of which what has arrived is a view, if it is one.
    """

    storage: int
    base: int = 0


@functools.cache
def _counts_alone(is_view: bool) -> _Alone:  # noqa: FBT001 - keywords cost each gradient more
    """Counts in a backward pass of our own, as PyTorch's ways to make views and call hooks differ.

    Args:
        is_view: whether what arrives is a view, which nobody else has, as from a linear layer.
    """
    found: list[_Alone] = []
    with torch.inference_mode(mode=False), torch.enable_grad():
        factor = torch.ones((2, 2), device="cpu")
        parameter: Any = torch.ones((2, 2), device="cpu", requires_grad=True)
        result = factor @ (parameter.t() if is_view else parameter)

        def count(_: Any, arrived: Any) -> None:
            base = arrived[0]._base  # noqa: SLF001 - a documented attribute
            storage = _storage_count(_address(parameter.grad))
            found.append(_Alone(storage, 0 if base is None else _tensor_count(base)))

        node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
        handle = node.register_hook(count)
        result.backward(torch.ones_like(result))
        handle.remove()
    return found[0]


def prepare_counts() -> None:
    """Has `memory_of` make no backward pass of its own within one of the script's."""
    if _CAN_COUNT:
        for is_view in (False, True):
            _counts_alone(is_view)


_ITSELF = 2  # a gradient counts, and the object that is asked for its memory


def memory_of(gradient: torch.Tensor, arrived: torch.Tensor | None) -> Memory:
    """Looks at a gradient that a backward pass has just added to.

    Args:
        gradient: a parameter's.
        arrived: what autograd has added; None when that is not known, or gone.
    """
    if not _CAN_COUNT:
        if gradient.layout is not torch.strided:
            return Memory.OWN
        # Most that begin as a view are not shared; those that do not are not.
        if arrived is None or not _is_taken(gradient, arrived):
            return Memory.OWN if gradient._base is None else Memory.SHARED  # noqa: SLF001 - as above
        return Memory.OWN if arrived._base is None else Memory.LENT  # noqa: SLF001 - as above
    try:
        storage = _storage_count(_address(gradient))
    except (NotImplementedError, RuntimeError):  # a sparse one, of which something else is sent
        return Memory.OWN
    if storage <= _ITSELF:  # of one tensor, which a hook may have made several parameters'
        return Memory.OWN if _tensor_count(gradient) <= _ITSELF else Memory.UNKNOWN
    if arrived is None:
        return Memory.UNKNOWN
    if not _is_taken(gradient, arrived):
        return Memory.SHARED
    base: Any = arrived._base  # noqa: SLF001 - as above
    alone = _counts_alone(base is not None)
    lent = storage > alone.storage or (base is not None and _tensor_count(base) > alone.base)
    return Memory.LENT if lent else Memory.OWN


def _address(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - there is no other way
    return address


def _is_taken(gradient: torch.Tensor, arrived: torch.Tensor) -> bool:
    return arrived.data_ptr() == gradient.data_ptr()
