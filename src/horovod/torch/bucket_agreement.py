"""What ranks agree on before they make buckets for their gradients."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet
from horovod.torch.gathering import allgather
from horovod.torch.missing_gradients import gradient_dtype

_JOINED = "is not supported with Join"  # in the core's error


def in_one_order(
    parameters: Sequence[torch.Tensor], groups: Sequence[Mapping[str, Any]]
) -> list[torch.Tensor]:
    """Parameters in the order of their optimizer's groups; those that are in none come first.

    Ranks may have come to know them in unlike orders: one that is new in an elastic job finds all
    of them unfrozen, which others have unfrozen one after the other.
    """
    grouped = (parameter for group in groups for parameter in group["params"])
    places = {parameter: place for place, parameter in enumerate(grouped)}
    return sorted(parameters, key=lambda parameter: places.get(parameter, -1))


def agree_on_bucket_bytes(
    names: Mapping[torch.Tensor, str],
    parameters: Sequence[torch.Tensor],
    bucket_bytes: int,
    process_set: ProcessSet,
) -> int:
    """How large a bucket may be: what the first rank has been given.

    Args:
        names: of the parameters, and of others.
        parameters: whose gradients get buckets.
        bucket_bytes: what this rank has been given.
        process_set: whose ranks agree.

    Raises:
        ValueError: on all ranks, when one has another list of parameters.
        HorovodInternalError: a rank has joined.
    """
    words = [
        f"{names[each]} {list(each.shape)} {each.stride()} {gradient_dtype(each)}"
        for each in parameters
    ]
    digest = hashlib.sha256("\n".join(words).encode()).digest()[:8]
    elements = sum(each.numel() for each in parameters)
    number = int.from_bytes(digest, "little", signed=True)
    own = [number, len(parameters), elements, min(bucket_bytes, 2**63 - 1)]
    try:
        gathered = allgather(
            torch.tensor([own], device="cpu"), name="gradients.layout", process_set=process_set
        ).tolist()
    except HorovodInternalError as error:
        if _JOINED not in str(error):
            raise
        raise HorovodInternalError(
            "gradient_as_bucket_view makes its buckets in the first step, and new ones in a step in"
            " which there are new parameters, or of another type: all ranks take part, but one has"
            " called hvd.join() already. Make such a step on all ranks before any of them joins, or"
            " leave the argument out"
        ) from error
    *first, chosen = gathered[0]
    if all(each[:-1] == first for each in gathered):
        return int(chosen)
    facts = "; ".join(
        f"rank {rank}: {count} parameters of {total} elements, digest {number & (2**64 - 1):x}"
        for rank, (number, count, total, _) in zip(process_set.ranks, gathered, strict=True)
    )
    raise ValueError(
        "gradient_as_bucket_view needs the same parameters, in the same order, with the same"
        f" names, shapes, strides and types on all ranks, but they differ: {facts}"
    )
