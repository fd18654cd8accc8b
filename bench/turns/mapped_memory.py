"""Memory that all ranks of a host map, without any library, and torch's arithmetic in it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from turns.torch_work import DTYPES

# What stays in a core's second-level cache, of two ranks' tensors.
PIECE_BYTES = 256 * 1024


def mapped_tensors(
    rank: int, size: int, count: int, dtype: str, gather: Callable[[object], Sequence[object]]
) -> list[torch.Tensor]:
    """One tensor for each rank, all of which every rank has mapped.

    Args:
        rank: this one.
        size: of the group.
        count: elements of each tensor.
        dtype: their type.
        gather: collects one object of every rank, and so waits for all of them.
    """
    kind = DTYPES[dtype]
    stride = -(-count * kind.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    file = -1
    if rank == 0:
        file = os.memfd_create("benchmark")
        os.ftruncate(file, size * stride)
    place = gather(f"/proc/{os.getpid()}/fd/{file}")[0]
    if rank != 0:
        file = os.open(Path(str(place)), os.O_RDWR)
    memory = mmap.mmap(file, size * stride)
    gather(None)
    os.close(file)
    return [
        torch.frombuffer(memory, dtype=kind, count=count, offset=each * stride)
        for each in range(size)
    ]


def own_slices(tensors: Sequence[torch.Tensor], rank: int) -> list[list[torch.Tensor]]:
    """The slice of all tensors that one rank works on, in pieces."""
    slices = [tensor.chunk(len(tensors))[rank] for tensor in tensors]
    parts = -(-slices[0].nbytes // PIECE_BYTES)
    return [list(pieces) for pieces in zip(*(each.chunk(parts) for each in slices), strict=True)]


def reduce_pieces(pieces: Sequence[Sequence[torch.Tensor]]) -> None:
    """Adds what all ranks have, and gives the sum to all of them; waits for nobody."""
    for first, *others in pieces:
        for other in others:
            first.add_(other)
        for other in others:
            other.copy_(first)
