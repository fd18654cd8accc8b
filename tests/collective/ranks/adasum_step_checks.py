"""Steps of the distributed optimizer for Adasum: what is summed up with what, and what may follow.

Of steps that all ranks have alike, the adaptive sum is each of them.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.common.exceptions import HorovodInternalError


def is_possible() -> bool:
    return hvd.size().bit_count() == 1


def distributed(
    parameters: list[torch.nn.Parameter], names: list[str] | None = None, momentum: float = 0.0
) -> Any:
    named = None if names is None else list(zip(names, parameters, strict=True))
    return hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=1.0, momentum=momentum),
        named_parameters=named,
        op=hvd.Adasum,
    )


def check_adaptive_sums_go_by_names() -> None:
    """The ranks have their parameters in orders of their own, as out of a set."""
    if not is_possible():
        return
    parameters = {name: torch.nn.Parameter(torch.zeros(2)) for name in "abc"}
    order = list("abc") if hvd.rank() % 2 == 0 else list("cab")
    optimizer = distributed([parameters[name] for name in order], order)
    late = torch.nn.Parameter(torch.zeros(2))  # without a name
    optimizer.add_param_group({"params": [late]})
    everyone = [*parameters.values(), late]
    for number, parameter in enumerate(everyone):
        parameter.grad = torch.tensor([-1.0 - number, 0.0])
    optimizer.step()
    assert [each.tolist() for each in everyone] == [[1.0 + n, 0.0] for n in range(4)]


def check_optimizers_of_two_threads_are_kept_apart() -> None:
    if not is_possible():
        return

    def train(number: int) -> list[float]:
        weight = torch.nn.Parameter(torch.zeros(2))
        optimizer = distributed([weight], [f"model {number}.weight"])
        for _ in range(20):
            weight.grad = torch.tensor([-1.0, -10.0 * number])
            optimizer.step()
        values: list[float] = weight.tolist()
        return values

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(train, range(2))) == [[20.0, 0.0], [20.0, 200.0]]


def check_a_parameter_that_is_frozen_moves_alike_on_all_ranks() -> None:
    """Its gradient and its momentum are each rank's own."""
    if not is_possible():
        return
    frozen, other = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = distributed([frozen, other], momentum=0.9)
    for step in range(3):
        optimizer.zero_grad(set_to_none=False)
        run_backward(((frozen + other) * torch.tensor([1.0, hvd.rank()])).sum())
        if step == 1:
            frozen.requires_grad = False
        optimizer.step()
        everywhere = hvd.allgather(torch.stack([frozen.detach(), other.detach()])[None])
        assert all(torch.equal(each, everywhere[0]) for each in everywhere), step


def check_a_step_may_be_left_out_after_synchronize() -> None:
    """As a scaler does with one that has infinite gradients."""
    if not is_possible():
        return
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = distributed([weight])
    run_backward(weight.sum())
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.synchronize()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        run_backward(weight.sum())  # it has not been left out yet
    optimizer.synchronize()
    optimizer.zero_grad()
    run_backward(weight.sum())
    optimizer.step()
    assert weight.tolist() == [0.0, 0.0]


def check_ranks_leave_out_a_step_with_infinite_gradients_together() -> None:
    if not is_possible():
        return
    for sparse in (False, True):
        empty, weight = torch.nn.Parameter(torch.zeros(0)), torch.nn.Parameter(torch.zeros(3, 1))
        optimizer = distributed([empty, weight])
        scaler: Any = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=100)
        for step in range(4):
            optimizer.zero_grad()
            factor = float("inf") if step == 1 and hvd.rank() == 0 else -1.0
            row = torch.nn.functional.embedding(torch.tensor([1]), weight, sparse=sparse)
            run_backward(scaler.scale((row * factor).sum() + empty.sum()))
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0
        assert weight.tolist() == [[0.0], [3.0], [0.0]]


def check_a_rank_without_gradients_hears_of_infinite_ones() -> None:
    """It gets one, also where its sparse one has no entry."""
    if not is_possible():
        return
    for sparse in (False, True):
        table = torch.nn.Embedding(3, 2, sparse=sparse)
        optimizer = distributed([torch.nn.Parameter(torch.zeros(0)), *table.parameters()])
        if hvd.rank() == 0:
            table.weight.grad = torch.full((3, 2), float("inf"))
        elif sparse:
            run_backward(table(torch.tensor([], dtype=torch.long)).sum())
        optimizer.synchronize()
        assert table.weight.grad is not None
        assert table.weight.grad.isinf().any()


def check_passes_of_a_step_that_has_failed_are_forgotten() -> None:
    if not is_possible():
        return
    weight = torch.nn.Parameter(torch.zeros(2 + (hvd.rank() == 0)))
    optimizer = distributed([weight])
    run_backward(weight.sum())
    with pytest.raises(HorovodInternalError, match="Mismatched"):
        optimizer.step()
    optimizer.zero_grad()
    run_backward(weight.sum())


def check_all_ranks_find_what_is_no_number() -> None:
    """As scripts do that leave out a step by themselves, also while other ranks have joined."""
    if not is_possible():
        return
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = distributed([weight])
    weight.grad = torch.tensor([1.0, [float("nan"), float("inf")][min(hvd.rank(), 1)]])
    optimizer.synchronize()
    assert weight.grad.isnan().any()
    if hvd.rank() == 0:
        weight.grad = torch.ones(2)
        optimizer.synchronize()
        assert weight.grad.tolist() == [1.0, 1.0]
    hvd.join()


def check_closures_may_synchronize_as_often_as_each_rank_needs() -> None:
    if not is_possible():
        return
    weight = torch.nn.Parameter(torch.full((2,), 1.0 + hvd.rank()))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.LBFGS([weight], lr=0.1, max_iter=2 + 3 * hvd.rank()), op=hvd.Adasum
    )

    def evaluate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (weight - 1.0).pow(4).sum()
        run_backward(loss)
        optimizer.synchronize()
        return loss

    optimizer.step(evaluate)
