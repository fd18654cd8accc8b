"""Optimizers that hold another one, with whose groups and state they work: Lookahead, SAM."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward


class Lookahead(torch.optim.Optimizer):
    """As timm's: tells and loads the state of the one within, and links itself to that."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner
        self.param_groups = inner.param_groups
        self.defaults = inner.defaults

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)

    def state_dict(self) -> dict[str, Any]:
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.inner.load_state_dict(state_dict)
        self.param_groups = self.inner.param_groups


class WithProperty(Lookahead):
    """As pytorch_optimizer's Lookahead: its groups are a property, which cannot be set."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        self.defaults = inner.defaults
        self.state = defaultdict(dict)
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self.inner.param_groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.inner.add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.inner.load_state_dict(state_dict)


class SAM(torch.optim.Optimizer):
    """As its authors': loads its own state, and links the one within to that."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner
        self.param_groups = inner.param_groups
        self.defaults.update(inner.defaults)

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.inner.param_groups = self.param_groups


class SharingSAM(SAM):
    """As pytorch_optimizer's: shares the state too."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner)
        self.state = inner.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.inner.state = self.state


class LoadingBoth(Lookahead):
    """As torch_optimizer's Lookahead: loads the one within and itself, which puts them apart."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.inner.load_state_dict(state_dict)
        torch.optim.Optimizer.load_state_dict(self, {**state_dict, "state": {}})


class SharingBoth(LoadingBoth):
    """Shares the state too."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner)
        self.state = inner.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.inner.load_state_dict(state_dict)
        torch.optim.Optimizer.load_state_dict(self, state_dict)


class LoadingOneWithin(SharingBoth):
    """Loads the one within alone, which has the values then."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.inner.load_state_dict(state_dict)


class Around(LoadingBoth):
    """Around another one that is around the one that makes the steps."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(LoadingBoth(inner))

    @property
    def innermost(self) -> torch.optim.Optimizer:
        return self.inner.inner  # type: ignore[attr-defined,no-any-return]


class WithListOfItsOwn(LoadingBoth):
    """Shares the groups, but not their list, as `Optimizer.__init__` leaves it."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner)
        self.param_groups = list(inner.param_groups)


SHARING_THE_STATE = (SharingSAM, SharingBoth, LoadingOneWithin)
KINDS = (Lookahead, WithProperty, SAM, LoadingBoth, Around, *SHARING_THE_STATE)


def trained(kind: Callable[[torch.optim.Optimizer], Any]) -> tuple[torch.nn.Linear, Any]:
    """Another state on each rank."""
    torch.manual_seed(hvd.rank())
    layer = torch.nn.Linear(2, 1)
    rate = 0.1 * (hvd.rank() + 1)
    optimizer = kind(torch.optim.SGD(layer.parameters(), lr=rate, momentum=0.5))
    run_backward(layer(torch.randn(4, 2)).sum())
    optimizer.step()
    optimizer.zero_grad()
    wrapped = hvd.DistributedOptimizer(optimizer, named_parameters=layer.named_parameters())
    return layer, wrapped


def expect_the_rate_to_move_both(layer: torch.nn.Linear, optimizer: Any) -> None:
    shared = optimizer.inner.param_groups is optimizer.param_groups
    assert all(hvd.allgather_object(shared))  # which the root cannot lose
    optimizer.param_groups[0]["momentum"] = 0.0
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.0)
    assert scheduler.get_last_lr() == [0.0]
    before = layer.weight.detach().clone()
    run_backward(layer(torch.ones(1, 2)).sum())
    optimizer.step()
    assert torch.equal(layer.weight.detach(), before)
    optimizer.zero_grad()
    added = torch.nn.Parameter(torch.ones(1))
    optimizer.add_param_group({"params": [added], "lr": 1.0})
    assert [len(each.param_groups) for each in (optimizer, optimizer.inner)] == [2, 2]


def check_the_optimizer_within_keeps_its_groups_after_a_broadcast() -> None:
    for kind in KINDS:
        layer, optimizer = trained(kind)
        hvd.broadcast_parameters(layer.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        assert optimizer.inner.param_groups[0]["lr"] == 0.1, kind
        expect_the_rate_to_move_both(layer, optimizer)


def check_the_optimizer_within_keeps_its_groups_after_a_restore() -> None:
    for kind in KINDS:
        layer, optimizer = trained(kind)
        state = hvd.elastic.TorchState(model=layer, optimizer=optimizer)
        optimizer.param_groups[0]["lr"] = 7.0
        state.restore()
        assert optimizer.inner.param_groups[0]["lr"] == 0.1 * (hvd.rank() + 1), kind
        expect_the_rate_to_move_both(layer, optimizer)


def check_the_optimizer_within_keeps_a_state_that_is_shared() -> None:
    for kind in SHARING_THE_STATE:
        layer, optimizer = trained(kind)
        momentum = optimizer.inner.state[layer.weight]["momentum_buffer"]
        hvd.broadcast_optimizer_state(optimizer, 0)
        everyones = hvd.allgather(momentum.unsqueeze(0))
        shared = optimizer.inner.state is optimizer.state
        kept = optimizer.inner.state[layer.weight]["momentum_buffer"] is momentum
        assert all(hvd.allgather_object(shared and kept)), kind
        assert torch.equal(everyones, everyones[:1].expand_as(everyones)), kind


def check_groups_are_shared_that_are_in_two_lists() -> None:
    _, optimizer = trained(WithListOfItsOwn)
    hvd.broadcast_optimizer_state(optimizer, 0)
    (group,), (within,) = optimizer.param_groups, optimizer.inner.param_groups
    assert group is within
    assert group["lr"] == 0.1
    assert optimizer.param_groups is not optimizer.inner.param_groups


def check_the_innermost_optimizer_keeps_its_groups() -> None:
    _, optimizer = trained(Around)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.innermost.param_groups is optimizer.param_groups
