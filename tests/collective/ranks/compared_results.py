"""What results of collectives are compared with."""

import time
from typing import Any

import torch

import horovod.torch as hvd

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)


def total() -> int:
    """The sum of each rank's number, counted from 1."""
    return hvd.size() * (hvd.size() + 1) // 2


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether all numbers are the same, on whatever devices; NaNs are."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    one, other = found.cpu(), expected.cpu()
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def comes(handle: int, what: str, seconds: float = 60) -> Any:
    """Waits for an operation, but not for ever."""
    end = time.monotonic() + seconds
    while not hvd.poll(handle):
        assert time.monotonic() < end, f"{what} does not come"
        time.sleep(0.001)
    return hvd.synchronize(handle)
