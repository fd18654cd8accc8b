"""Roots, factors and devices that are no numbers: all calls say so, whichever way they take.

What the bindings would say are the types of their own arguments.
"""

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

import horovod.array as hvd_array
import horovod.torch as hvd
from horovod.torch.adasum import gather_and_combine

NO_NUMBERS: tuple[Any, ...] = (None, "1", b"1", [], 1j, torch.ones(2), np.ones(2))
NO_WHOLE_NUMBERS = (*NO_NUMBERS, 1.5, torch.tensor(1.0), np.float32(1), Decimal(1))
NUMBERS = (2, True, np.int64(2), np.float32(2), torch.tensor(2), torch.tensor(0.5), Decimal(2))
WHOLE_NUMBERS = (1, True, np.int64(1), torch.tensor(1))

# Functions of both front ends.
ROOTED = ("broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "broadcast_object")
FACTORED = (
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "reducescatter",
    "reducescatter_async",
)


def rooted() -> list[Callable[[Any], Any]]:
    """Calls with a root; what they return is to be waited for where they only start something."""
    own, array = torch.ones(2, 3), np.ones((2, 3))
    calls: list[Callable[[Any], Any]] = [
        lambda root: hvd.broadcast_parameters({"own": own}, root),
        lambda root: hvd.broadcast(own.requires_grad_(), root),
    ]
    for name in ROOTED:
        calls.append(functools.partial(getattr(hvd, name), own.detach()))
        calls.append(functools.partial(getattr(hvd_array, name), array))
    return calls


def factored() -> list[Callable[..., Any]]:
    """Calls with factors, likewise."""
    own, array = torch.ones(2, 3), np.ones((2, 3))
    calls: list[Callable[..., Any]] = [
        lambda **factors: hvd.allreduce(own.clone().requires_grad_(), op=hvd.Sum, **factors),
        lambda **factors: hvd.reducescatter(own.clone().requires_grad_(), op=hvd.Sum, **factors),
    ]
    for name in FACTORED:
        for front_end, value in ((hvd, own), (hvd_array, array)):
            call, group = getattr(front_end, name), getattr(front_end, f"grouped_{name}")
            calls.append(functools.partial(call, value, op=hvd.Sum))
            calls.append(functools.partial(group, [value], op=hvd.Sum))
    return calls


def wait_for(result: Any) -> None:
    if isinstance(result, int) and not isinstance(result, bool):
        hvd.synchronize(result)


def check_roots_are_whole_numbers() -> None:
    for call in rooted():
        for wrong in NO_WHOLE_NUMBERS:
            with pytest.raises(TypeError, match="root_rank must be a rank, a whole number, not"):
                call(wrong)
        for wrong in (1 << 33, -(1 << 70)):
            with pytest.raises(ValueError, match=r"invalid root rank .*: no job has so many ranks"):
                call(wrong)
        for right in WHOLE_NUMBERS:
            wait_for(call(right))


def check_factors_are_numbers() -> None:
    for call in factored():
        for name in ("prescale_factor", "postscale_factor"):
            for wrong in NO_NUMBERS:
                with pytest.raises(TypeError, match=f"{name} must be a number, not"):
                    call(**{name: wrong})
            with pytest.raises(ValueError, match=f"{name} is larger than the largest"):
                call(**{name: 10**400})
            for right in NUMBERS:
                wait_for(call(**{name: right}))
    half: Any = Decimal("0.5")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, prescale_factor=half) == hvd.size() / 2
    factors: Any = (1.0, "x")
    with pytest.raises(TypeError, match="postscale_factor must be a number, not 'x'"):
        gather_and_combine([torch.ones(1)], list, None, factors, hvd.global_process_set)


def check_wrong_numbers_are_refused_without_numbering_anything() -> None:
    """By one rank alone, which then goes on with the others."""
    if hvd.rank() == 0:
        wrong: Any = "0"
        for broadcast in (hvd.broadcast, hvd.broadcast_async, hvd_array.broadcast):
            with pytest.raises(TypeError):
                broadcast(torch.ones(2), wrong)
        for reduce in (hvd.allreduce, hvd.allreduce_async, hvd_array.allreduce):
            with pytest.raises(TypeError):
                reduce(torch.ones(2), prescale_factor=wrong)
    assert hvd.broadcast(torch.full((2,), float(hvd.rank())), 1).tolist() == [1, 1]
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2


def check_devices_to_join_with_are_whole_numbers() -> None:
    for wrong in NO_WHOLE_NUMBERS:
        with pytest.raises(TypeError, match="device must be the number of a GPU"):
            hvd.join(wrong)
    with pytest.raises(ValueError, match="no host has so many GPUs"):
        hvd.join(1 << 70)
    right: Any
    for right in (-1, np.int64(-1), torch.tensor(-1), -(1 << 70)):
        hvd.join(right)
