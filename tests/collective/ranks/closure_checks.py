"""Steps with a closure, which makes backward passes of its own, or none."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward


def check_a_closures_gradients_are_those_of_all_ranks() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    before = model.weight.detach().clone()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(torch.ones(1, 2)).sum() * (hvd.rank() + 1)
        run_backward(loss)
        return loss

    for _ in range(2):
        optimizer.step(closure)
    expected = before - 2 * (hvd.size() + 1) / 2
    torch.testing.assert_close(model.weight.detach(), expected)


def check_each_gradient_is_summed_once_whoever_calls_a_closure() -> None:
    def weight_after(passes: int, train: Callable[[Any, Callable[[], Any]], None]) -> float:
        layer = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(layer.weight)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(layer.parameters(), lr=1.0),
            op=hvd.Sum,
            backward_passes_per_step=passes,
        )

        def pass_backward() -> Any:
            loss = layer(torch.ones(1, 1)).sum()
            run_backward(loss)
            return loss

        train(optimizer, pass_backward)
        return layer.weight.item()

    def before_the_step(optimizer: Any, pass_backward: Callable[[], Any]) -> None:
        loss = pass_backward()
        optimizer.step(lambda: loss)

    def within_and_halved(optimizer: Any, pass_backward: Callable[[], Any]) -> None:
        def closure() -> Any:
            loss = pass_backward()
            optimizer.synchronize()
            (parameter,) = optimizer.param_groups[0]["params"]
            parameter.grad.mul_(0.5)
            return loss

        optimizer.step(closure)

    def before_and_within(optimizer: Any, pass_backward: Callable[[], Any]) -> None:
        pass_backward()
        optimizer.step(pass_backward)

    def anew_within(optimizer: Any, pass_backward: Callable[[], Any]) -> None:
        def closure() -> Any:
            optimizer.zero_grad()
            return pass_backward()

        pass_backward()
        optimizer.step(closure)

    n = hvd.size()
    for passes in (1, 2):
        assert weight_after(passes, before_the_step) == -n
        assert weight_after(passes, within_and_halved) == -n / 2
        assert weight_after(passes, anew_within) == -n
    assert weight_after(2, before_and_within) == -2 * n


def check_gradients_that_were_thrown_away_leave_no_warning() -> None:
    layer = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(3.0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bad in (True, False):
            run_backward(layer(torch.ones(1, 1)).sum())
            if bad:
                optimizer.synchronize()
                optimizer.zero_grad()
        optimizer.step()
    assert layer.weight.item() == 2.0
    run_backward(layer(torch.ones(1, 1)).sum() * 0.0)
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"without optimizer\.skip_synchronize\(\) context"):
        optimizer.step()
