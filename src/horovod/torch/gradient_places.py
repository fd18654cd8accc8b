"""Where results become gradients: not where others have the same memory."""

from collections.abc import Iterable

import torch

from horovod._memory_ranges import Piece, piece_of, sharing
from horovod.torch.compression import Compressor, Outgoing
from horovod.torch.gradient_memory import Memory
from horovod.torch.gradients_in_flight import Gradient, Parameter
from horovod.torch.operands import keep_for_this_stream, repeats_elements


def sharing_memory(
    parameters: Iterable[Parameter], besides: Iterable[torch.Tensor] = ()
) -> set[int]:
    """Finds parameters whose gradients have memory in common with something else.

    Args:
        parameters: each once.
        besides: what counts like another one's gradient.

    Returns:
        Their `id`s. Of a sparse gradient counts where its values are.
    """
    tensors = [(id(parameter), parameter.grad) for parameter in parameters]
    tensors += [(0, tensor) for tensor in besides]
    pieces = [(key, piece) for key, tensor in tensors if (piece := _piece(tensor)) is not None]
    return {pieces[i][0] for i in sharing([piece for _, piece in pieces])}


def look_at_group(members: Iterable[Gradient]) -> None:
    """Makes gradients `LENT` that hooks have put into one place of a script's buffer.

    Args:
        members: of a group, before it is sent.
    """
    shared = [member for member in members if member.memory is Memory.SHARED]
    if len(shared) > 1:
        meeting = sharing_memory(member.parameter for member in shared)
        for member in shared:
            if id(member.parameter) in meeting:
                member.memory = Memory.LENT


def look_at_places(sent: Iterable[Gradient], gradients: Iterable[Gradient]) -> None:
    """Looks at gradients whose memory is `UNKNOWN`, before any result lands.

    Where a gradient is the script's own memory, as part of a buffer, it stays that; where another
    parameter's gradient, or what is on its way, has the same memory, it becomes `LENT`, as it does
    where no result can be put.

    Args:
        sent: those on their way.
        gradients: of all parameters, of which some may have the same memory.
    """
    unknown = (gradient for gradient in sent if gradient.memory is Memory.UNKNOWN)
    doubtful = [gradient for gradient in unknown if _has_a_place_to_come(gradient)]
    if not doubtful:
        return
    left = [tensor for gradient in doubtful if (tensor := _left(gradient)) is not None]
    shared = sharing_memory((gradient.parameter for gradient in gradients), left)
    for gradient in doubtful:
        own = gradient.parameter.grad
        lent = id(gradient.parameter) in shared or (own is not None and repeats_elements(own))
        gradient.memory = Memory.LENT if lent else Memory.UNKNOWN


def put_in_place(
    gradient: Gradient, arrived: torch.Tensor, sent: Outgoing, compression: type[Compressor]
) -> None:
    """Makes what has arrived the parameter's gradient.

    Args:
        gradient: that was sent; into memory that is `LENT` nothing is written.
        arrived: the sum, as it has travelled.
        sent: what was sent.
        compression: by which.
    """
    parameter = gradient.parameter
    if arrived.layout is not torch.strided:
        parameter.grad = arrived
        return
    own = parameter.grad
    # The stream of the backward pass has made them; the step's may be another one.
    keep_for_this_stream(sent.context if arrived is own else (arrived, sent.context))
    reduced = compression.decompress(arrived, sent.context)
    if own is None or own is reduced:
        return
    if own.layout is not torch.strided:
        # It has travelled dense; SparseAdam, for example, takes sparse ones alone.
        parameter.grad = reduced.to_sparse(own.sparse_dim())
    elif gradient.memory is not Memory.LENT:
        own.detach().copy_(reduced)
    elif reduced is sent.tensor and reduced.dtype == own.dtype:  # the copy that was sent
        parameter.grad = reduced
    else:
        parameter.grad = torch.empty_like(own).copy_(reduced)


def _left(gradient: Gradient) -> torch.Tensor | None:
    """What is on its way for a gradient, and is not where that is now."""
    flight, own = gradient.flight, gradient.parameter.grad
    if flight is None or own is None:
        return None
    sent = flight.sent.tensor
    if sent.layout is not torch.strided or own.layout is not torch.strided:
        return sent
    stays = sent.data_ptr() == own.data_ptr() and sent.stride() == own.stride()
    return None if stays else sent


def _has_a_place_to_come(gradient: Gradient) -> bool:
    flight, own = gradient.flight, gradient.parameter.grad
    return not (flight is None or flight.landed or own is None or own.layout is not torch.strided)


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
