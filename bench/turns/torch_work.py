"""Cases on torch tensors, for libraries that differ in their calls alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from turns.arguments import KIB
from turns.cases import ITEM_BYTES, Case, Work, pages
from turns.gradient_sets import SHAPES, elements

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def tensor_on_pages(count: int, dtype: str = "float32") -> torch.Tensor:
    """A tensor whose memory is of the kind that all libraries get."""
    memory = pages(count * ITEM_BYTES[dtype])
    return torch.frombuffer(memory, dtype=DTYPES[dtype], count=count)


def gradients_of(case: Case) -> list[torch.Tensor]:
    """ResNet-50's; where the case says how many bytes, one tensor for each KiB."""
    if case.nbytes:
        return [tensor_on_pages(KIB // 4) for _ in range(case.nbytes // KIB)]
    return [tensor_on_pages(elements(shape)) for shape in SHAPES["resnet50"]]


def collective(
    case: Case,
    rank: int,
    size: int,
    calls: Mapping[str, Callable[[], torch.Tensor]],
    own: torch.Tensor,
) -> Work:
    """A case of one collective.

    Args:
        case: what to do.
        rank: this one.
        size: ranks of the group.
        calls: for each work what does it on `own` and returns the result.
        own: this rank's tensor.
    """
    call = calls[case.work]
    total = size * (size + 1) / 2
    if case.variant == "average":
        total /= size

    def check() -> bool:
        own.fill_(rank + 1)
        result = call()
        if case.work in {"allreduce", "reducescatter"}:
            return bool((result == total).all())
        if case.work == "broadcast":
            return bool((result == 1).all())
        blocks = result.view(size, -1)
        return all(bool((blocks[other] == other + 1).all()) for other in range(size))

    return Work(call, check, own.zero_)


def gradients(
    tensors: list[torch.Tensor],
    rank: int,
    size: int,
    call: Callable[[], object],
    *,
    average: bool = False,
) -> Work:
    """A case of many tensors that are summed, or averaged, in place."""
    total = size * (size + 1) / 2
    if average:
        total /= size

    def reset(value: float = 0) -> None:
        for tensor in tensors:
            tensor.fill_(value)

    def check() -> bool:
        reset(rank + 1)
        call()
        return all(bool((tensor == total).all()) for tensor in tensors)

    return Work(call, check, reset)
