"""Where results land whose gradients no hook has seen, or that scripts have put elsewhere."""

import array
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


def check_one_tensor_as_two_gradients_gives_each_its_result() -> None:
    for groups in (None, 1):
        for width in (8, 1 << 18):  # also of some size, which is on its way for a while
            a, b = (torch.nn.Parameter(torch.ones(width)) for _ in range(2))
            optimizer = wrapped((a, b), groups=groups)
            # One tensor, as each has the whole sum's gradient.
            both = torch.autograd.grad(((a + b) * factor()).sum(), (a, b))
            a.grad = both[0]
            b.grad = both[1] if hvd.rank() == 0 else None
            optimizer.step()
            assert a.grad is not None
            assert b.grad is not None
            assert set(a.grad.tolist()) == {mean_factor()}
            assert torch.allclose(b.grad, torch.full((width,), 1.0 / hvd.size()))
            a.grad = b.grad = torch.full((width,), factor())
            optimizer.step()
            assert set(a.grad.tolist()) == set(b.grad.tolist()) == {mean_factor()}


def check_tensors_of_one_memory_give_each_its_result() -> None:
    pair = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
    optimizer = wrapped(pair, op=hvd.Sum)
    memory = array.array("f", [factor()] * 4)
    for parameter in pair:
        parameter.grad = torch.frombuffer(memory, dtype=torch.float32)
    optimizer.step()
    for parameter in pair:
        assert parameter.grad is not None
        assert parameter.grad.tolist() == [mean_factor() * hvd.size()] * 4


def check_columns_of_a_script_s_buffer_stay_its_own() -> None:
    for complex_parts in (False, True):
        pair = [torch.nn.Parameter(torch.ones(5, 3)) for _ in range(2)]
        if complex_parts:
            parts = torch.view_as_real(torch.zeros(5, 3, dtype=torch.complex64)).unbind(-1)
        else:
            buffer = torch.zeros(5, 6)
            parts = buffer[:, :3], buffer[:, 3:]
        optimizer = wrapped(pair)
        for parameter, part in zip(pair, parts, strict=True):
            parameter.grad = part
        for step in range(3):
            for part in parts:
                part.zero_()
            used = pair if step != 1 else pair[:1]  # the other one's gradient no hook sees
            run_backward(sum((parameter * factor()).sum() for parameter in used))
            optimizer.step()
            for parameter, part in zip(pair, parts, strict=True):
                assert parameter.grad is part
                expected = mean_factor() if parameter in set(used) else 0.0
                assert part.tolist() == [[expected] * 3] * 5


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


def check_an_expanded_tensor_may_be_put_in_place_of_a_gradient() -> None:
    a, b = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))
    optimizer = wrapped([a, b])
    run_backward(((a[None] + b[None]) * factor()).sum())
    a.grad = torch.zeros(1).expand(2, 3)
    optimizer.step()
    for parameter in (a, b):
        assert parameter.grad is not None
        assert parameter.grad.tolist() == [[mean_factor()] * 3] * 2
