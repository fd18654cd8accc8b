"""Into which gradients a result may be written: not where others have the same memory."""

from collections.abc import Iterable

import torch

from horovod._memory_ranges import Piece, piece_of, sharing
from horovod.torch.gradient_memory import Memory
from horovod.torch.gradients_in_flight import Gradient
from horovod.torch.operands import repeats_elements

_IN_DOUBT = (Memory.LENT, Memory.UNKNOWN)


def sharing_memory(gradients: Iterable[Gradient]) -> set[int]:
    """Finds gradients that have memory in common with another one of them.

    Args:
        gradients: of all parameters, each once.

    Returns:
        Their `id`s. Of a sparse one counts where its values are.
    """
    pieces = [
        (gradient, piece)
        for gradient in gradients
        if (piece := _piece(gradient.parameter.grad)) is not None
    ]
    return {id(pieces[i][0]) for i in sharing([piece for _, piece in pieces])}


def look_at_places(sent: Iterable[Gradient], gradients: Iterable[Gradient]) -> None:
    """Looks at gradients of which copies were sent, before any result lands.

    Where a gradient is the script's own memory, as part of a buffer, it stays that; where another
    parameter's gradient, or a sparse one on its way, has the same memory, it becomes `LENT`, as it
    does where no result can be put. What the script has put in the place of one that was lent is
    the script's.

    Args:
        sent: those on their way.
        gradients: of all parameters, of which some may have the same memory.
    """
    doubtful = [gradient for gradient in sent if _is_in_doubt(gradient)]
    if not doubtful:
        return
    shared = sharing_memory(gradients)
    for gradient in doubtful:
        own = gradient.parameter.grad
        lent = id(gradient) in shared or (own is not None and repeats_elements(own))
        gradient.memory = Memory.LENT if lent else Memory.UNKNOWN


def _is_in_doubt(gradient: Gradient) -> bool:
    if gradient.memory not in _IN_DOUBT:
        return False
    flight, own = gradient.flight, gradient.parameter.grad
    if flight is None or flight.landed or own is None or own.layout is not torch.strided:
        return False
    return gradient.memory is not Memory.LENT or own.data_ptr() != gradient.address


def _piece(gradient: torch.Tensor | None) -> Piece | None:
    if gradient is None:
        return None
    try:
        values = gradient if gradient.layout is torch.strided else gradient._values()  # noqa: SLF001 - `values()` is of coalesced ones
        address, item = values.data_ptr(), values.element_size()
        if values.is_contiguous():
            return Piece(address, ((values.numel() * item, 1),))
        return piece_of(address, values.shape, values.stride(), item)
    except (NotImplementedError, RuntimeError):  # it has no memory of one kind
        return None
