"""Long gradients are copied into their buckets past the caches, and are none the less right."""

from collections.abc import Callable

import pytest
import torch

import horovod.torch as hvd
from horovod.torch.long_copies import copy_into

WIDTH = 1024  # its square has 4 MiB


def _gradient(layout: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return layout(torch.arange(WIDTH * WIDTH, dtype=torch.float32).reshape(WIDTH, WIDTH))


def _check_copied(view: torch.Tensor, gradient: torch.Tensor) -> None:
    expected, version = gradient.clone(), view._version
    with torch.no_grad():
        copy_into(view, gradient)
    torch.testing.assert_close(view, expected.to(view.dtype), rtol=0, atol=0)
    assert view._version > version


def check_gradients_of_every_layout_are_copied() -> None:
    """Those whose bytes lie otherwise than their places', or are others, go element by element."""
    _check_copied(torch.zeros(WIDTH, WIDTH), _gradient(lambda each: each))
    _check_copied(torch.zeros(WIDTH, WIDTH), _gradient(lambda each: each.t()))
    _check_copied(torch.zeros(WIDTH, WIDTH).t(), _gradient(lambda each: each.t()))
    _check_copied(torch.zeros(WIDTH, WIDTH), _gradient(lambda each: each.double()))
    _check_copied(torch.zeros(WIDTH, WIDTH), _gradient(lambda each: each[:1].expand(WIDTH, WIDTH)))
    _check_copied(torch.zeros(WIDTH, WIDTH), _gradient(torch._neg_view))
    _check_copied(torch.zeros(WIDTH * WIDTH)[5:], _gradient(torch.Tensor.flatten)[5:])
    _check_copied(
        torch.zeros(16, 256, 16, 16).to(memory_format=torch.channels_last),
        _gradient(lambda each: each.reshape(16, 256, 16, 16)).to(memory_format=torch.channels_last),
    )


def check_zeros_that_take_no_memory_are_copied() -> None:
    view = torch.ones(WIDTH, WIDTH)
    with torch.no_grad():
        copy_into(view, torch._efficientzerotensor((WIDTH, WIDTH)))
    assert not view.any()


def check_a_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(RuntimeError, match="size of tensor"):
        copy_into(torch.zeros(WIDTH, WIDTH), _gradient(lambda each: each[: WIDTH - 1]))


def check_a_gradient_in_its_place_stays() -> None:
    """As a whole; one that overlaps its place is PyTorch's to copy."""
    memory = torch.randn(WIDTH * WIDTH)
    _check_copied(memory, memory.view_as(memory))


def check_steps_with_long_gradients() -> None:
    """Parameters end where those of one process do that has seen all ranks' data."""
    steps = 3
    torch.manual_seed(5)
    data = torch.randn(steps, hvd.size(), 4, WIDTH) / WIDTH

    def trained(*, distributed: bool) -> list[torch.Tensor]:
        torch.manual_seed(6)
        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 700))
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        if distributed:
            optimizer = hvd.DistributedOptimizer(
                optimizer,
                named_parameters=model.named_parameters(),
                gradient_as_bucket_view=True,
            )
        for batch in data:
            optimizer.zero_grad()
            inputs = batch[hvd.rank()] if distributed else batch.flatten(0, 1)
            model(inputs).square().mean().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    for ours, theirs in zip(trained(distributed=True), trained(distributed=False), strict=True):
        torch.testing.assert_close(ours, theirs)
