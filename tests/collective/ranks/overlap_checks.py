"""Gradients are reduced while the backward pass runs: it is held up until that has happened."""

import time
from collections.abc import Callable
from typing import Any

import torch

import horovod.torch as hvd

PATIENCE = 60.0  # seconds until the backward pass goes on without it, and the check fails


class _HeldUp(torch.autograd.Function):
    """Hands its input on; its backward pass does not end before a condition holds."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, condition: Callable[[], bool]) -> torch.Tensor:
        ctx.condition = condition
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        end = time.monotonic() + PATIENCE
        while not ctx.condition():
            if time.monotonic() > end:
                raise RuntimeError("nothing was reduced while the backward pass ran")
            time.sleep(0.001)  # lets go of the interpreter's lock
        return gradients[0], None


def _reduced_within_backward(width: int = 4, after: int = 0, **options: Any) -> None:
    """The last layer's gradient is everyone's mean before the first layer has one at all.

    No rank can come to the end of its backward pass before all ranks have sent that gradient in
    theirs.

    Args:
        width: of the layers.
        after: steps that come before, in which nothing need be reduced early.
        options: of the optimizer.
    """
    first, last = (torch.nn.Linear(width, width, bias=False) for _ in range(2))
    named = [("first", first.weight), ("last", last.weight)]
    hvd.broadcast_parameters(dict(named), 0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([first.weight, last.weight], lr=1.0), named_parameters=named, **options
    )
    # No rank's own number is the mean of all.
    own = hvd.size() * hvd.rank() ** 2 + 1.0
    mean = torch.tensor(sum(rank**2 for rank in range(hvd.size())) + 1.0)

    def is_reduced() -> bool:
        gradient = last.weight.grad
        assert first.weight.grad is None or not first.weight.grad.any()
        return gradient is not None and torch.allclose(gradient, mean)

    for step in range(after + 2):
        optimizer.zero_grad()
        # The last layer sees ones only, so its gradient is this rank's number in every element.
        held_up: Any = _HeldUp  # PyTorch has not typed its method
        ones = held_up.apply(
            first(torch.ones(1, width)), is_reduced if step >= after else lambda: True
        )
        loss = last(ones - ones.detach() + 1).sum() * own
        loss.backward()
        optimizer.step()


def check_a_gradient_is_reduced_before_backward_ends() -> None:
    _reduced_within_backward()


def check_a_large_gradient_is_reduced_before_backward_ends() -> None:
    _reduced_within_backward(width=1000)


def check_a_divided_gradient_is_reduced_before_backward_ends() -> None:
    _reduced_within_backward(gradient_predivide_factor=2.0)


def check_groups_of_gradients_are_reduced_before_backward_ends() -> None:
    _reduced_within_backward(groups=2)


def check_buckets_are_reduced_before_backward_ends() -> None:
    _reduced_within_backward(after=1, gradient_as_bucket_view=True, bucket_cap_mb=0)
