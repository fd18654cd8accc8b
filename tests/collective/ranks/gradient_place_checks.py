"""Where results land whose gradients no hook has seen, or that scripts have put elsewhere."""

import array
import itertools
from collections.abc import Callable
from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.gradient_hook_checks import HOOKS, add_hook
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
            optimizer = wrapped((a, b), groups=groups, op=hvd.Sum)
            a.grad = b.grad = torch.full((width,), factor())
            optimizer.step()
            assert set(a.grad.tolist()) == set(b.grad.tolist()) == {mean_factor() * hvd.size()}


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
                parameter.grad = torch.tensor([factor()]).expand(4).detach()
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


def check_one_tensor_as_two_gradients_of_which_one_was_frozen() -> None:
    for _ in range(20):  # one that is copied while the other is on its way may be half a sum
        a, b = (torch.nn.Parameter(torch.ones(1 << 18)) for _ in range(2))
        b.requires_grad = False
        optimizer = wrapped((a, b))
        b.requires_grad = True
        a.grad, b.grad = torch.autograd.grad(((a + b) * factor()).sum(), (a, b))
        optimizer.step()
        for parameter in (a, b):
            assert parameter.grad is not None
            assert set(parameter.grad.tolist()) == {mean_factor()}


def check_what_takes_the_place_of_a_gradient_on_its_way_gets_that_one_s_result() -> None:
    def one_tensor(a: torch.Tensor, b: torch.Tensor) -> None:
        a.grad = b.grad = torch.zeros(4)

    def one_for_both(a: torch.Tensor, b: torch.Tensor) -> None:
        a.grad = b.grad

    def exchange(a: torch.Tensor, b: torch.Tensor) -> None:
        a.grad, b.grad = b.grad, a.grad

    def expand(a: torch.Tensor, b: torch.Tensor) -> None:
        for parameter in (a, b):
            parameter.grad = torch.zeros(1).expand(4)

    def overlap(a: torch.Tensor, b: torch.Tensor) -> None:
        buffer = torch.zeros(6)
        a.grad, b.grad = buffer[:4], buffer[2:]

    ways: tuple[dict[str, Any], ...] = (
        {},
        {"compression": hvd.Compression.fp16},
        {"groups": 1},
        {"gradient_as_bucket_view": True},
    )
    for put, options, in_buffer in itertools.product(
        (one_tensor, one_for_both, exchange, expand, overlap), ways, (False, True)
    ):
        a, b = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
        optimizer = wrapped((a, b), **options)
        for step in range(2):  # buckets are made in the first one
            optimizer.zero_grad()
            if in_buffer:
                buffer = torch.zeros(8)
                a.grad, b.grad = buffer[:4], buffer[4:]
            run_backward((a.pow(2) * factor() + b * 3.0 * factor()).sum())
            put(a, b)
            optimizer.step()
            if not step and "gradient_as_bucket_view" in options:
                continue  # these were sent from where they had been put
            for parameter, times in ((a, 2.0), (b, 3.0)):
                assert parameter.grad is not None
                expected = torch.full((4,), times * mean_factor())
                assert torch.allclose(parameter.grad, expected), (put, options, in_buffer)


def check_gradients_that_wait_for_their_group_are_looked_at_again() -> None:
    a, b, unused = (torch.nn.Parameter(torch.ones(4)) for _ in range(3))
    for unlike in (True, False):
        optimizer = wrapped((a, b, unused), groups=[[unused, a, b]])
        optimizer.zero_grad()
        run_backward((a * factor() + b * 3.0 * factor()).sum())
        if not unlike:
            a.grad = torch.tensor([factor()]).expand(4)
        elif hvd.rank() == 0:
            a.grad = b.grad = torch.full((4,), 5.0)
        optimizer.step()
        for parameter, times in ((a, 1.0), (b, 3.0)):
            assert parameter.grad is not None
            others = times * (mean_factor() - 1.0 / hvd.size())
            expected = others + 5.0 / hvd.size() if unlike else times * mean_factor()
            assert torch.allclose(parameter.grad, torch.full((4,), expected))


def check_a_script_s_hook_may_expand_a_gradient() -> None:
    if not HOOKS:
        return
    for before in (True, False):
        parameter = torch.nn.Parameter(torch.ones(4))

        def expand(_: Any, parameter: Any = parameter) -> None:
            parameter.grad = parameter.grad.mean().expand_as(parameter)

        if before:
            add_hook(parameter, expand)
        optimizer = wrapped([parameter])
        if not before:
            add_hook(parameter, expand)
        run_backward((parameter * factor()).sum())
        optimizer.step()
        assert parameter.grad is not None
        assert parameter.grad.tolist() == [mean_factor()] * 4


def check_a_gradient_of_windows_that_overlap_is_reduced() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, 3))
    optimizer = wrapped([parameter])
    windows, own = torch.arange(6.0).unfold(0, 3, 1), torch.arange(12.0).view(4, 3)
    expected = own + (windows - own) / hvd.size()
    parameter.grad = windows if hvd.rank() == 0 else own
    optimizer.step()
    assert parameter.grad is not None
    assert torch.allclose(parameter.grad, expected)


def check_dense_and_sparse_take_each_other_s_place_in_flight() -> None:
    for sparse_as_dense in (False, True):
        table = torch.nn.Embedding(3, 2, sparse=True).weight
        weight = torch.nn.Parameter(torch.ones(3, 2))
        optimizer = wrapped([table, weight], sparse_as_dense=sparse_as_dense)
        rows = torch.nn.functional.embedding(torch.tensor([1]), table, sparse=True)
        run_backward((rows.sum() + weight.sum()) * factor())
        table.grad, weight.grad = torch.zeros(3, 2), torch.zeros(3, 2).to_sparse(1)
        optimizer.step()
        assert table.grad is not None
        assert weight.grad is not None
        assert table.grad.to_dense().tolist() == [[0.0] * 2, [mean_factor()] * 2, [0.0] * 2]
        assert weight.grad.to_dense().tolist() == [[mean_factor()] * 2] * 3


def check_gradients_replaced_while_they_wait_for_their_group_have_results_of_their_own() -> None:
    """The last of the group, and with it its hook, sends them."""
    buffer = torch.zeros(6)
    home = torch.zeros(8)

    def one_of_a_buffer(a: Any, b: Any) -> list[float]:
        a.grad = b.grad
        return [3.0] * 8

    def one_for_two(a: Any, b: Any) -> list[float]:
        a.grad = b.grad = torch.full((4,), 5.0)
        return [5.0] * 8

    def overlapping(a: Any, b: Any) -> list[float]:
        buffer.fill_(5.0)
        a.grad, b.grad = buffer[:4], buffer[2:]
        return [5.0] * 8

    def of_the_script(a: Any, b: Any) -> list[float]:
        a.grad, b.grad = buffer.fill_(5.0)[:4], torch.full((4,), 6.0)
        return [5.0] * 4 + [6.0] * 4

    for replace in (one_for_two, overlapping, of_the_script, one_of_a_buffer):
        a, b, c = parameters = [torch.nn.Parameter(torch.ones(4)) for _ in range(3)]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(parameters, lr=0.0), op=hvd.Sum, groups=[parameters]
        )
        if replace is one_of_a_buffer:
            a.grad, b.grad = home.zero_()[:4], home[4:]
        run_backward((a + 3 * b).sum())
        own = replace(a, b) if hvd.rank() == 0 else None
        run_backward((7 * c).sum())
        optimizer.step()
        sums = hvd.broadcast_object(own)
        expected = [
            each + (hvd.size() - 1) * (1.0 if i < 4 else 3.0) for i, each in enumerate(sums)
        ]
        assert a.grad is not None
        assert b.grad is not None
        assert [*a.grad.tolist(), *b.grad.tolist()] == expected, replace
        assert c.grad is not None
        assert c.grad.tolist() == [7.0 * hvd.size()] * 4
        if own is not None and replace is of_the_script:
            assert buffer[:4].tolist() == expected[:4]  # its own memory has the result


def check_a_gradient_turned_on_its_way_gets_its_result() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = wrapped([weight])
    factors = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(2):
        optimizer.zero_grad()
        run_backward((weight * factors * factor()).sum())
        assert weight.grad is not None
        weight.grad = weight.grad.t()
        optimizer.step()
        assert torch.equal(weight.grad, factors * mean_factor())


def check_one_tensor_that_hooks_make_the_gradient_of_two_gives_each_its_result() -> None:
    """On one rank, of a group that the last of these hooks' parameters sends."""
    if not HOOKS or not CAN_COUNT:
        return
    parameters = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=0.0), op=hvd.Sum, groups=[parameters]
    )
    nothing = torch.zeros(4)

    def mask(parameter: Any) -> None:
        if hvd.rank() == 0:
            parameter.grad = nothing

    for parameter in parameters:
        add_hook(parameter, mask)
    run_backward((parameters[0] + 2 * parameters[1]).sum())
    optimizer.step()
    for number, parameter in enumerate(parameters):
        assert parameter.grad is not None
        assert parameter.grad.tolist() == [(number + 1.0) * (hvd.size() - 1)] * 4


def check_one_place_of_a_buffer_that_hooks_make_two_gradients_gives_each_its_result() -> None:
    """Or places that overlap; those that do not stay the script's."""
    if not HOOKS or not CAN_COUNT:
        return
    for step in (0, 1, 4):
        twins = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(twins, lr=0.0), op=hvd.Sum, groups=[twins]
        )
        buffer = torch.zeros(8)

        def move(parameter: Any, buffer: torch.Tensor = buffer, step: int = step) -> None:
            if hvd.rank() == 0:
                begin = step * (parameter is twins[1])  # noqa: B023 - called before the next ones
                parameter.grad = buffer[begin : begin + 4]

        for twin in twins:
            add_hook(twin, move)
        run_backward((twins[0] + 2 * twins[1]).sum())
        optimizer.step()
        others = hvd.size() - 1.0
        for number, twin in enumerate(twins):
            assert twin.grad is not None
            assert twin.grad.tolist() == [(number + 1) * others] * 4, step
        if step == 4 and hvd.rank() == 0:
            assert buffer.tolist() == [others] * 4 + [2 * others] * 4
