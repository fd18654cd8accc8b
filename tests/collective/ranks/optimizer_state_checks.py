"""What an optimizer's state is after a broadcast, which objects stay, and what a fresh one gets."""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward

Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


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


def check_a_scheduler_made_before_wrapping_goes_on_after_a_state_was_loaded() -> None:
    for op in (hvd.Average, hvd.Adasum):
        if op == hvd.Adasum and hvd.size().bit_count() != 1:
            continue
        layer = torch.nn.Linear(2, 1)
        inner = torch.optim.SGD(layer.parameters(), lr=1.0, momentum=0.5)
        scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5)
        optimizer = hvd.DistributedOptimizer(inner, op=op)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of steps that the scheduler has not seen
            for step in range(1, 4):
                optimizer.load_state_dict(optimizer.state_dict())
                assert inner.param_groups is optimizer.param_groups
                assert inner.state is optimizer.state
                optimizer.zero_grad()
                run_backward(layer(torch.ones(1, 2)).sum())
                optimizer.step()
                scheduler.step()
                assert optimizer.param_groups[0]["lr"] == 0.5**step
        assert inner.state[layer.weight]["momentum_buffer"] is not None
        inner.zero_grad()
        weight = layer.weight.detach().clone()
        inner.step()  # goes on by itself, where there are no gradients
        assert torch.equal(layer.weight.detach(), weight)


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


class Pair(NamedTuple):
    """Which cannot be made anew from a generator."""

    one: torch.Tensor
    other: str


class Odd(torch.optim.Optimizer):
    """A state of many types, other on each rank."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": my_rate()})

    def fill(self) -> None:
        mine = hvd.rank() + 1
        self.state: Any
        self.state["steps"] = mine
        self.state["seen"] = torch.full((2,), mine)
        for group in self.param_groups:
            for parameter in group["params"]:
                third = torch.full(parameter.shape, mine / 3)
                self.state[parameter] = {
                    "master": third,
                    "precise": third.double(),
                    "complex": third * 1j,
                    "sparse": third.to_sparse(),
                    "flags": third > 0.5,
                    "counts": torch.full((mine,), mine, dtype=torch.int16),
                    "step": torch.tensor(float(mine)),
                    "mode": f"of rank {hvd.rank()}",
                    "code": bytes([mine]),
                    "ready": mine == 1,
                    "rate": mine / 3,
                    "nothing": None,
                    "history": [{"inner": (third.clone(), "text")}, third.clone()][:mine],
                    "ordered": OrderedDict(z=third.clone(), a="b"),
                    "pair": Pair(third.clone(), "c"),
                    "sizes": torch.Size([mine]),
                    "range": range(mine),
                    f"only {hvd.rank()}": mine,
                }


def check_types_and_values_of_the_state_are_the_roots() -> None:
    root = hvd.size() - 1
    for fresh in (False, True):
        layer = torch.nn.Linear(3, 2).bfloat16()
        optimizer = hvd.DistributedOptimizer(Odd(list(layer.parameters())))
        if not fresh or hvd.rank() == root:
            optimizer.fill()
        before = dict(optimizer.state.get(layer.weight, {}))
        inner = before["history"][0]["inner"][0] if before else None
        said = hvd.broadcast_object(repr(optimizer.state_dict()), root)
        hvd.broadcast_optimizer_state(optimizer, root)
        assert repr(optimizer.state_dict()) == said
        after = optimizer.state[layer.weight]
        for key in ("master", "precise", "flags", "step", "history") if before else ():
            assert after[key] is before[key], key
        assert inner is None or after["history"][0]["inner"][0] is inner
        assert after["pair"].other == "c"
        assert after["master"].dtype == torch.float32
        everyones = hvd.allgather_object(after["precise"])
        assert all(torch.equal(each, everyones[root]) for each in everyones)


def check_states_of_parameters_of_half_precision() -> None:
    for name in ("NAdam", "ASGD", "Adam", "RAdam", "Adagrad"):
        torch.manual_seed(3)
        layer = torch.nn.Linear(3, 2).bfloat16()
        inner = getattr(torch.optim, name)(layer.parameters(), lr=0.05)
        optimizer = hvd.DistributedOptimizer(inner)
        for turn in range(3):
            optimizer.zero_grad()
            run_backward(layer(torch.full((2, 3), turn + hvd.rank() + 0.5).bfloat16()).sum())
            optimizer.step()
        before = repr(optimizer.state_dict())
        hvd.broadcast_optimizer_state(optimizer, 0)  # all have the same one already
        assert repr(optimizer.state_dict()) == before, name


def check_tensors_that_are_one_on_some_ranks_only() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    one, other = torch.full((2,), 1.0), torch.full((2,), 2.0)
    optimizer.state[weight] = {"a": one, "b": other if hvd.rank() == 0 else one}
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.state[weight]["a"] is one
    assert [each.tolist() for each in optimizer.state[weight].values()] == [[1.0] * 2, [2.0] * 2]


def check_optimizers_with_a_state_dict_of_their_own() -> None:
    """What they tell in another form is theirs to load; what they tell as it is stays as it is."""

    class Short(torch.optim.SGD):
        loads = 0

        def state_dict(self) -> dict[str, Any]:
            told = super().state_dict()
            told["state"] = {
                key: {**entry, "long": entry["long"].bfloat16()}
                for key, entry in told["state"].items()
            }
            return told

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            super().load_state_dict(state_dict)
            self.loads += 1
            for entry in self.state.values():
                entry["long"] = entry["long"].float() + 1.0

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(Short([weight], lr=1.0))
    precise = torch.full((2,), 1 / 3, dtype=torch.float64)
    mine = {"long": torch.full((2,), hvd.rank() + 3.0), "precise": precise}
    optimizer.state[weight] = mine
    long = mine["long"]
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.loads == (hvd.rank() != 0)
    assert optimizer.state[weight]["long"] is long
    assert long.tolist() == ([3.0] * 2 if hvd.rank() == 0 else [4.0] * 2)
    assert optimizer.state[weight]["precise"].tolist() == [1 / 3] * 2


def check_an_optimizer_without_a_state_dict_raises_on_all_ranks() -> None:
    class Untold(torch.optim.SGD):
        def state_dict(self) -> dict[str, Any]:
            raise AttributeError("there is none")

    optimizer = Untold(torch.nn.Linear(2, 2).parameters(), lr=my_rate())
    with pytest.raises(AttributeError, match="there is none"):
        hvd.broadcast_optimizer_state(optimizer, 0)
    hvd.barrier()


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


def check_what_is_broadcast_lies_as_it_did() -> None:
    for wrap in (hvd.DistributedOptimizer, lambda optimizer: optimizer):
        layer = torch.nn.Conv2d(3, 2, 3)
        layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
        inner = torch.optim.Adam(layer.parameters())
        if hvd.rank() == 0:
            run_backward(layer(torch.ones(1, 3, 4, 4)).sum())
            inner.step()
        optimizer = wrap(inner)
        hvd.broadcast_optimizer_state(optimizer, 0)
        for name in ("exp_avg", "exp_avg_sq"):
            moment = optimizer.state[layer.weight][name]
            assert moment.stride() == layer.weight.stride()
            everyones = hvd.allgather(moment.unsqueeze(0))
            assert torch.equal(everyones, moment.unsqueeze(0).expand_as(everyones))


def check_a_broadcast_of_the_state_leaves_gradients_on_their_way() -> None:
    every: list[dict[str, Any]] = [
        {},
        {"backward_passes_per_step": 2},
        {"gradient_as_bucket_view": True},
    ]
    for options in every:
        layer = torch.nn.Linear(1, 1, bias=False)
        hvd.broadcast_parameters(layer.state_dict(), 0)
        before = layer.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(layer.parameters(), lr=1.0, momentum=0.9), **options
        )
        for _ in range(optimizer.backward_passes_per_step):
            run_backward(layer(torch.ones(1, 1)).sum() * (hvd.rank() + 1))
            hvd.broadcast_optimizer_state(optimizer, 0)
        optimizer.step()
        mean = optimizer.backward_passes_per_step * (hvd.size() + 1) / 2
        torch.testing.assert_close(layer.weight.detach(), before - mean)
        optimizer.zero_grad()


def check_values_of_types_that_collectives_do_not_know_arrive() -> None:
    names = ("uint16", "float8_e4m3fn", "float8_e5m2", "complex64", "float32")
    for dtype in (getattr(torch, name) for name in names if hasattr(torch, name)):
        weight = torch.nn.Parameter(torch.ones(2, 3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        values = torch.arange(6.0).reshape(3, 2).to(dtype).t()
        optimizer.state[weight] = {
            "turned": values if hvd.rank() == 0 else torch.zeros(1),
            "single": values[1, 1] if hvd.rank() == 0 else None,
            "empty": values[:0],
        }
        hvd.broadcast_optimizer_state(optimizer, 0)
        found = optimizer.state[weight]
        assert found["turned"].dtype == dtype
        assert found["turned"].float().tolist() == [[0, 2, 4], [1, 3, 5]]
        assert found["turned"].stride() == values.stride()
        assert found["single"].float() == 3
        assert found["empty"].shape == (0, 3)
