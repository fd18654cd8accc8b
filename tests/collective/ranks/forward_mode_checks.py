"""Forward-mode differentiation: tangents are reduced too, or refused, and never lost."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import horovod.torch as hvd

# Which PyTorch has not typed.
make_dual: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = forward_ad.make_dual
unpack_dual: Callable[[torch.Tensor], Any] = forward_ad.unpack_dual

IN_PLACE_OR_ASYNCHRONOUS: tuple[Callable[..., Any], ...] = (
    hvd.allreduce_,
    hvd.grouped_allreduce_,
    hvd.broadcast_,
    hvd.allreduce_async,
    hvd.allreduce_async_,
    hvd.grouped_allreduce_async,
    hvd.grouped_allreduce_async_,
    hvd.grouped_allgather_async,
    hvd.grouped_reducescatter_async,
    hvd.broadcast_async,
    hvd.broadcast_async_,
    hvd.allgather_async,
    hvd.alltoall_async,
    hvd.reducescatter_async,
)


def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((3,), hvd.rank() + 1.0), torch.full((3,), 10.0 * (hvd.rank() + 1))


def tangent_of(call: Callable[[torch.Tensor], Any], **options: Any) -> torch.Tensor:
    point, direction = numbers()
    with forward_ad.dual_level():
        result = call(make_dual(point, direction), **options)
        tangent: torch.Tensor | None = unpack_dual(result).tangent
    assert tangent is not None
    return tangent


def check_tangents_of_an_allreduce_are_reduced() -> None:
    total = 10.0 * sum(range(1, hvd.size() + 1))
    mean = total / hvd.size()
    for options, expected in (
        ({}, mean),
        ({"op": hvd.Sum}, total),
        (
            {"op": hvd.Sum, "name": "named", "prescale_factor": 0.5, "postscale_factor": 3.0},
            1.5 * total,
        ),
        ({"compression": hvd.Compression.fp16}, mean),
    ):
        tangent = tangent_of(hvd.allreduce, **options)
        torch.testing.assert_close(tangent, torch.full((3,), expected))
    point, direction = numbers()
    with forward_ad.dual_level():
        dual = make_dual(point.requires_grad_(), direction)
        result = unpack_dual(hvd.allreduce(dual))
    assert result.primal.requires_grad
    assert result.tangent is not None
    torch.testing.assert_close(result.tangent, torch.full((3,), mean))


def check_other_operations_refuse_tangents() -> None:
    for call in (
        hvd.allgather,
        hvd.alltoall,
        hvd.reducescatter,
        lambda tensor: hvd.broadcast(tensor, 0),
        lambda tensor: hvd.allreduce(tensor, op=hvd.Max),
        lambda tensor: hvd.grouped_allreduce([tensor])[0],
        lambda tensor: hvd.alltoall(tensor, splits=[1] * hvd.size())[0],
    ):
        point = torch.ones(hvd.size())
        with (
            forward_ad.dual_level(),
            pytest.raises(NotImplementedError, match=r"jvp function|op=Average and op=Sum alone"),
        ):
            call(make_dual(point, point))


def check_tangents_are_refused_where_they_would_be_lost_or_left_as_they_were() -> None:
    point = torch.ones(hvd.size())
    space = torch.zeros(hvd.size() ** 2)
    some = hvd.add_process_set([0])
    with forward_ad.dual_level():
        dual = make_dual(point, 2 * point)
        for call in IN_PLACE_OR_ASYNCHRONOUS:
            tensors: Any = [dual] if "grouped" in call.__name__ else dual
            root = (1,) if "broadcast" in call.__name__ else ()
            for process_set in (hvd.global_process_set, some):
                with pytest.raises(NotImplementedError, match=r"tangent.*unpack_dual\(tensor\)"):
                    call(tensors, *root, process_set=process_set)
        for gradients in (torch.enable_grad(), torch.no_grad()):
            with gradients:
                for tensor, output in ((dual, space), (point, make_dual(space, space.clone()))):
                    with pytest.raises(NotImplementedError, match="has a tangent"):
                        hvd.allgather(tensor, output=output)
        assert unpack_dual(dual).primal.tolist() == [1.0] * hvd.size()
        assert unpack_dual(dual).tangent.tolist() == [2.0] * hvd.size()
        assert hvd.allreduce_(unpack_dual(dual).primal, op=hvd.Sum)[0] == hvd.size()
    assert hvd.remove_process_set(some)


def check_tensors_without_a_tangent_are_as_ever() -> None:
    own, _ = numbers()
    with forward_ad.dual_level():
        assert hvd.allreduce(own, op=hvd.Sum)[0] == sum(range(1, hvd.size() + 1))
        assert hvd.allgather(own, output=torch.empty(3 * hvd.size())).numel() == 3 * hvd.size()
        assert hvd.broadcast(own, 1)[0] == 2
        assert hvd.allgather(own).numel() == 3 * hvd.size()
