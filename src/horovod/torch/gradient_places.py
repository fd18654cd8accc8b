"""Into which gradients a result may be written: not where others have the same memory."""

from collections.abc import Iterable, Sequence

import torch

from horovod._memory_ranges import sharing
from horovod.torch.gradient_memory import Memory
from horovod.torch.gradients_in_flight import Gradient

_IN_DOUBT = (Memory.LENT, Memory.UNKNOWN)


def look_at_places(sent: Iterable[Gradient], gradients: Iterable[Gradient]) -> None:
    """Looks at gradients of which copies were sent, before any result lands.

    Where a gradient is the script's own memory, as part of a buffer, it stays that; where another
    parameter's gradient, or a sparse one on its way, has the same memory, it becomes `LENT`. What
    the script has put in the place of one that was lent is the script's.

    Args:
        sent: those on their way.
        gradients: of all parameters, of which some may have the same memory.
    """
    doubtful = {id(gradient) for gradient in sent if _is_in_doubt(gradient)}
    if not doubtful:
        return
    pieces = [
        (gradient, piece)
        for gradient in gradients
        if (piece := _piece(gradient.parameter.grad)) is not None
    ]
    shared = {id(pieces[i][0]) for i in sharing([piece for _, piece in pieces])}
    for gradient, _ in pieces:
        if id(gradient) in doubtful:
            gradient.memory = Memory.LENT if id(gradient) in shared else Memory.UNKNOWN


def _is_in_doubt(gradient: Gradient) -> bool:
    if gradient.memory not in _IN_DOUBT:
        return False
    flight, own = gradient.flight, gradient.parameter.grad
    if flight is None or flight.landed or own is None or own.layout is not torch.strided:
        return False
    return gradient.memory is not Memory.LENT or own.data_ptr() != gradient.address


def _piece(gradient: torch.Tensor | None) -> tuple[int, int] | None:
    """Address, and bytes from the first element to the last; of a sparse one, of its values."""
    if gradient is None:
        return None
    try:
        values = gradient if gradient.layout is torch.strided else gradient._values()  # noqa: SLF001 - `values()` is of coalesced ones
        return values.data_ptr(), _extent(values.shape, values.stride()) * values.element_size()
    except (NotImplementedError, RuntimeError):  # it has no memory of one kind
        return None


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
