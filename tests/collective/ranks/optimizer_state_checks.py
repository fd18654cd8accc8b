"""What stays the same object when an optimizer's state is broadcast, and what a fresh one gets."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd

Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


def run_backward(loss: Any) -> None:
    """The method itself, which PyTorch has not typed."""
    loss.backward()


def my_rate() -> float:
    return 0.1 * (hvd.rank() + 1)


def check_a_scheduler_goes_on_after_the_state_was_broadcast() -> None:
    for wrap in (hvd.DistributedOptimizer, lambda optimizer: optimizer):
        layer = torch.nn.Linear(2, 1)
        inner = torch.optim.SGD(layer.parameters(), lr=my_rate() * 10)
        scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5)
        optimizer = wrap(inner)
        group = optimizer.param_groups[0]
        hvd.broadcast_parameters(layer.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        assert optimizer.param_groups[0] is group
        assert inner.param_groups[0] is group
        assert inner.state is optimizer.state
        for step in range(1, 4):
            optimizer.zero_grad()
            run_backward(layer(torch.ones(1, 2)).sum())
            optimizer.step()
            inner.step()  # the scheduler counts the steps of the one that it was given
            scheduler.step()
            assert group["lr"] == 0.5**step
            assert optimizer.param_groups[0]["lr"] == 0.5**step
        weights = hvd.allgather(layer.weight.detach())
        assert torch.equal(weights, weights[:1].expand_as(weights))


def check_tensors_of_the_state_are_filled_where_they_are() -> None:
    kinds: list[Make] = [
        lambda p: torch.optim.SGD(p, lr=my_rate(), momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=torch.tensor(my_rate()), amsgrad=True),
        lambda p: torch.optim.Adagrad(p, lr=my_rate()),
    ]
    for make in kinds:
        torch.manual_seed(hvd.rank())
        layer = torch.nn.Linear(3, 2)
        inner = make(list(layer.parameters()))
        run_backward(layer(torch.randn(4, 3)).sum())
        inner.step()
        optimizer = hvd.DistributedOptimizer(inner)
        before = dict(optimizer.state[layer.weight])
        rate = optimizer.param_groups[0]["lr"]
        hvd.broadcast_optimizer_state(optimizer, 0)
        after = inner.state[layer.weight]
        assert before.keys() == after.keys()
        for key, value in before.items():
            assert after[key] is value or not isinstance(value, torch.Tensor), key
        if isinstance(rate, torch.Tensor):
            assert optimizer.param_groups[0]["lr"] is rate
        assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.1)
        everyones = hvd.allgather_object(optimizer.state_dict())
        assert repr(everyones[0]) == repr(everyones[hvd.rank()])


def check_state_that_only_the_root_lacks_goes() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    if hvd.rank() != 0:
        run_backward(layer(torch.randn(4, 3)).sum())
        optimizer.step()
    state = optimizer.state
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.state is state
    assert not state


def check_a_fresh_optimizer_gets_gradients_of_zeros() -> None:
    for options in ({}, {"gradient_as_bucket_view": True}, {"groups": 1}, {"op": hvd.Adasum}):
        if "op" in options and hvd.size() & (hvd.size() - 1):
            continue
        layer = torch.nn.Linear(2, 2)
        frozen = torch.nn.Parameter(torch.ones(1), requires_grad=False)
        hvd.broadcast_parameters(layer.state_dict(), 0)
        before = layer.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([*layer.parameters(), frozen], 1.0, momentum=0.9, weight_decay=0.1),
            **options,
        )
        layer.bias.grad = torch.ones(2)
        hvd.broadcast_optimizer_state(optimizer, 0)
        assert layer.weight.grad is not None
        assert layer.weight.grad.tolist() == [[0.0] * 2] * 2
        assert layer.bias.grad.tolist() == [1.0] * 2
        assert frozen.grad is None
        assert not optimizer.state
        assert torch.equal(layer.weight, before)
        # They take part in what follows as any others do.
        run_backward((layer.weight * 2.0).sum())
        optimizer.step()
        torch.testing.assert_close(layer.weight.detach(), before * 0.9 - 2.0)
        optimizer.zero_grad()
        if "gradient_as_bucket_view" not in options:
            assert layer.weight.grad is None
        hvd.broadcast_optimizer_state(optimizer, 0)  # which is no longer a fresh one
        if "gradient_as_bucket_view" not in options:
            assert layer.weight.grad is None


def check_a_fresh_optimizer_for_sparse_gradients_gets_sparse_ones() -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    hvd.broadcast_parameters(table.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(table.parameters()))
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert table.weight.grad is not None
    assert table.weight.grad.layout == torch.sparse_coo
    run_backward(table(torch.tensor([hvd.rank()])).sum())
    optimizer.step()
    weights = hvd.allgather(table.weight.detach().unsqueeze(0))
    assert torch.equal(weights, weights[:1].expand_as(weights))
