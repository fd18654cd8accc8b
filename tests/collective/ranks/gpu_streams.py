"""Streams of a rank's GPU, and what keeps them at work; on the CPU, nothing of that."""

import contextlib
from typing import Any

import torch

from collective.ranks.gpu_of_rank import has_gpus, place

_CYCLES = 1.7e9  # a GPU's, in about a second


def side_stream() -> Any:
    """A stream beside the current one; None on the CPU."""
    return torch.cuda.Stream(place()) if has_gpus() else None  # type: ignore[no-untyped-call]


def stream_after_this() -> Any:
    """A stream that begins when the current one has done what it has to do by now."""
    stream = side_stream()
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream())
    return stream


def on(stream: Any) -> Any:
    """Within it, a stream that `side_stream` has made is the current one."""
    return contextlib.nullcontext() if stream is None else torch.cuda.stream(stream)


def hold(seconds: float) -> None:
    """Keeps the current stream from what is enqueued there next."""
    if has_gpus():
        torch.cuda._sleep(int(seconds * _CYCLES))  # type: ignore[no-untyped-call]


def settle() -> None:
    """Waits until the GPU has nothing to do."""
    if has_gpus():
        torch.cuda.synchronize(place())


def many(count: int) -> int:
    """So many elements on a GPU, which works on them for a while; few on the CPU."""
    return count if has_gpus() else min(count, 1000)


def filled(count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Takes memory that has been given back, and overwrites it."""
    return [torch.full(shape, 77, dtype=dtype, device=place()) for _ in range(count)]
