"""Where results land whose gradients no hook has seen, or that scripts have put elsewhere."""

from collections.abc import Callable
from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.gradient_memory_checks import CAN_COUNT, wrapped

WIDTH = 64

Pair = tuple[torch.Tensor, torch.Tensor]
Loss = Callable[[], Any]


def by_hand(pair: Pair, loss: Loss) -> Any:
    """Gradients that the script computes."""
    optimizer = wrapped(pair)
    found = torch.autograd.grad(loss(), pair, allow_unused=True)
    for parameter, gradient in zip(pair, found, strict=True):
        parameter.grad = gradient
    return optimizer


def unfrozen(pair: Pair, loss: Loss) -> Any:
    """Gradients of parameters that were frozen when the optimizer was wrapped."""
    weight = torch.nn.Parameter(torch.ones(1))
    for parameter in pair:
        parameter.requires_grad = False
    optimizer = wrapped([*pair, weight])
    for parameter in pair:
        parameter.requires_grad = True
    run_backward(loss() * weight.sum())
    return optimizer


def converted(pair: Pair, loss: Loss) -> Any:
    """Gradients of a model that has changed its type since then."""
    optimizer = wrapped(pair)
    for parameter in pair:
        parameter.data = parameter.data.double()
    run_backward(loss())
    return optimizer


WAYS = (by_hand, unfrozen, converted)


def factor() -> float:
    return hvd.rank() + 1.0


def mean_factor() -> float:
    return (hvd.size() + 1) / 2


def check_twins_that_no_hook_has_seen_have_results_of_their_own() -> None:
    if not CAN_COUNT:
        return  # PyTorch does not tell who has memory
    for way in WAYS:
        a, b = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))

        def loss(a: Any = a, b: Any = b) -> Any:
            total = a[None] if hvd.rank() == 0 else a[None] + b[None]
            return (total * factor()).sum()

        optimizer = way((a, b), loss)
        optimizer.step()
        assert a.grad is not None
        assert b.grad is not None
        assert a.grad.tolist() == [[mean_factor()] * 3] * 2, way
        of_others = torch.full((2, 3), mean_factor() - 1.0 / hvd.size()).to(b.grad.dtype)
        assert torch.allclose(b.grad, of_others), way


def check_a_sparse_twin_on_its_way_is_not_written_to() -> None:
    if not CAN_COUNT:
        return  # PyTorch does not tell who has memory
    given = torch.arange(WIDTH)[None] % 3
    for way in WAYS:
        words = torch.nn.Embedding(3, WIDTH, sparse=True).weight
        places = torch.nn.Parameter(torch.zeros(WIDTH, WIDTH))

        def loss(words: Any = words, places: Any = places) -> Any:
            found = torch.nn.functional.embedding(given, words, sparse=True)
            return ((found + places[None]) * factor()).sum()

        way((places, words), loss).step()
        assert words.grad is not None
        assert places.grad is not None
        rows = [[mean_factor() * int((given == word).sum())] * WIDTH for word in range(3)]
        assert words.grad.to_dense().tolist() == rows, way
        assert places.grad.tolist() == [[mean_factor()] * WIDTH] * WIDTH, way


def check_an_expanded_gradient_is_reduced() -> None:
    for expanded in (True, False):
        parameter = torch.nn.Parameter(torch.ones(4))
        optimizer = wrapped([parameter])
        for _ in range(2):
            if expanded:
                parameter.grad = torch.tensor([factor()]).expand(4)
            else:
                (parameter.grad,) = torch.autograd.grad(parameter.sum() * factor(), [parameter])
            assert parameter.grad.stride() == (0,)
            optimizer.step()
            assert parameter.grad.tolist() == [mean_factor()] * 4


def check_what_a_script_puts_in_place_of_a_gradient_gets_the_result() -> None:
    a, b = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))
    optimizer = wrapped([a, b])
    buffer = torch.zeros(12)
    run_backward(((a[None] + b[None]) * factor()).sum())
    for parameter, part in zip((a, b), (buffer[:6], buffer[6:]), strict=True):
        assert parameter.grad is not None
        parameter.grad = part.view(2, 3).copy_(parameter.grad)
    optimizer.synchronize()
    assert buffer.tolist() == [mean_factor()] * 12
    assert a.grad is not None
    assert a.grad.data_ptr() == buffer.data_ptr()
