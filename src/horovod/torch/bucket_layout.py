"""Where gradients lie in buckets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from horovod.torch.gradients_in_flight import Parameter
from horovod.torch.missing_gradients import gradient_dtype

# Gradients begin on cache lines.
_LINE = 64


@dataclass(frozen=True)
class Layout:
    """Where the gradients of one type lie, in elements of one piece of memory.

    Attributes:
        offsets: of each gradient, in the order of memory.
        ends: behind each bucket.
    """

    dtype: torch.dtype
    offsets: Mapping[Parameter, int]
    ends: Sequence[int]


def lay_out(parameters: Sequence[Parameter], bucket_bytes: int) -> list[Layout]:
    """Fills buckets with the gradients of parameters.

    Args:
        parameters: in the order in which their gradients become complete.
        bucket_bytes: how large a bucket of more than one gradient may be.

    Returns:
        One layout for each type of number.
    """
    layouts = []
    for dtype in dict.fromkeys(map(gradient_dtype, parameters)):
        size = torch.empty(0, dtype=dtype).element_size()  # PyTorch 2.0 has no `dtype.itemsize`
        line = _LINE // size
        offsets: dict[Parameter, int] = {}
        ends: list[int] = []
        begin = end = 0
        for parameter in parameters:
            if gradient_dtype(parameter) != dtype:
                continue
            # An empty one takes a line too, so that it lies in a bucket, and no bucket is empty.
            room = -(-max(parameter.numel(), 1) // line) * line
            if end > begin and (end - begin + room) * size > bucket_bytes:
                ends.append(end)
                begin = end
            offsets[parameter] = end
            end += room
        layouts.append(Layout(dtype, offsets, [*ends, end]))
    return layouts


def view_of(flat: torch.Tensor, offset: int, parameter: Parameter) -> torch.Tensor:
    """The part of a one-dimensional tensor that is a parameter's gradient, laid out like it."""
    like = torch.empty_like(parameter, device="meta")
    view = flat.as_strided(parameter.size(), like.stride(), flat.storage_offset() + offset)
    return view.data  # of which PyTorch counts changes apart from the others'
