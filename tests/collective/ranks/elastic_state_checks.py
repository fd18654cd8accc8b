"""Elastic state: what is kept, restored and synchronised."""

import threading
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.common.elastic import (
    HostUpdateResult,
    ObjectState,
    State,
    notification_manager,
    run_fn,
)
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.torch.elastic.state import (
    StateHandler,
    get_handler_registry,
    set_handler_registry,
)


def trained_model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Another state on each rank."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1))
    run_backward(model(torch.randn(4, 2)).square().sum())
    optimizer.step()
    return model, optimizer


def snapshot(state: hvd.elastic.TorchState) -> str:
    return repr((state.model.state_dict(), state.optimizer.state_dict(), state.epoch, state.log))


def check_a_state_goes_back_to_its_last_commit() -> None:
    model, optimizer = trained_model()
    state = hvd.elastic.TorchState(model, optimizer, epoch=3, log=[1])
    committed = snapshot(state)
    state.epoch += 1
    state.log.append(2)  # the saved list is another one
    run_backward(state.model(torch.ones(2, 2)).sum())
    state.optimizer.step()
    assert snapshot(state) != committed
    state.restore()
    assert snapshot(state) == committed
    state.epoch = 9
    state.commit()
    state.epoch = 10
    state.restore()
    assert state.epoch == 9


def check_an_optimizers_state_keeps_its_types() -> None:
    """Restored and synchronised as it was, in the groups and tensors that there are."""
    weight = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    inner = torch.optim.SGD([weight], lr=1.0)
    optimizer = hvd.DistributedOptimizer(inner)
    master = torch.full((2,), (hvd.rank() + 1) / 3)
    optimizer.state[weight] = {"master": master, "mode": f"of rank {hvd.rank()}"}
    state = hvd.elastic.TorchState(optimizer=optimizer)
    committed = repr(optimizer.state_dict())
    master.zero_()
    optimizer.state[weight]["mode"] = ""
    state.restore()
    assert repr(optimizer.state_dict()) == committed
    assert inner.param_groups is optimizer.param_groups
    assert inner.state[weight]["master"] is master
    state.sync()
    assert repr(optimizer.state_dict()) == hvd.broadcast_object(committed)
    master.zero_()
    state.restore()
    assert master.tolist() == torch.full((2,), 1 / 3).tolist()
    assert optimizer.state[weight]["mode"] == "of rank 0"


def check_a_state_is_synchronised_from_rank_0() -> None:
    model, optimizer = trained_model()
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=hvd.rank(), log=[])
    state.sync()
    everyones = hvd.allgather_object(snapshot(state))
    assert set(everyones) == {everyones[0]}
    assert state.epoch == 0
    state.epoch = 5
    state.restore()  # what was synchronised has been kept
    assert state.epoch == 0
    other = torch.nn.Linear(1, 1)
    state.model = other
    state.restore()
    assert state.model is other


def check_a_wrapped_optimizer_forgets_what_was_on_its_way() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
    state = hvd.elastic.TorchState(optimizer=optimizer)
    run_backward(weight.sum())
    state.restore()
    state.optimizer.zero_grad()
    run_backward(weight.sum())
    state.optimizer.step()
    assert weight.tolist() == [-1.0, -1.0]


def check_gradients_of_an_undone_step_are_in_no_other() -> None:
    """Scripts may call `zero_grad()` after each step, and keep gradients in memory of their own."""
    for options in ({}, {"backward_passes_per_step": 2}, {"gradient_as_bucket_view": True}):
        weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
        table = torch.nn.Parameter(torch.zeros(2, 1))
        buffer = torch.zeros(4)
        if "gradient_as_bucket_view" not in options:
            weights[0].grad, weights[1].grad = buffer[:2], buffer[2:]
        parameters = [*weights, table]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), **options)

        def compute() -> None:
            row = torch.nn.functional.embedding(
                torch.tensor([1]),
                table,  # noqa: B023 - it is called before the next one is made
                sparse="gradient_as_bucket_view" not in options,  # noqa: B023 - likewise
            )
            run_backward(sum((each.sum() for each in weights), row.sum()))  # noqa: B023 - likewise

        state = hvd.elastic.TorchState(optimizer=optimizer)
        compute()
        state.restore()
        assert buffer.tolist() == [0.0] * 4
        assert table.grad is None
        passes = options.get("backward_passes_per_step", 1)
        for _ in range(passes):
            compute()
        optimizer.step()
        assert [each.tolist() for each in weights] == [[-passes, -passes]] * 3, options
        assert table.tolist() == [[0.0], [-passes]]


def check_an_expanded_gradient_is_dropped() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(1).expand(2)
    state = hvd.elastic.TorchState(optimizer=torch.optim.SGD([weight], lr=1.0))
    state.restore()
    assert weight.grad is None


def check_training_goes_on_after_an_interrupt_between_the_backward_pass_and_the_step() -> None:
    for skip_sync in (True, False):
        weight = torch.nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
        state = hvd.elastic.TorchState(optimizer=optimizer, interrupted=False)

        def train(state: Any, *, skip_sync: bool = skip_sync) -> None:
            state.optimizer.zero_grad()
            run_backward(weight.sum())  # noqa: B023 - it is called before the next one is made
            if not state.interrupted:
                state.interrupted = True
                raise HostsUpdatedInterrupt(skip_sync)
            state.optimizer.step()

        hvd.elastic.run(train)(state)
        assert weight.tolist() == [-1.0, -1.0]


def check_all_ranks_are_interrupted_together() -> None:
    state = ObjectState(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, value=1)
    state.commit()
    if hvd.rank() != 0:  # rank 0 has not heard of it yet
        state.on_hosts_updated(1.0, HostUpdateResult.added)
    state.commit()
    state.on_hosts_updated(2.0, HostUpdateResult.removed)
    with pytest.raises(HostsUpdatedInterrupt) as interrupt:
        state.commit()
    assert not interrupt.value.skip_sync
    state.on_hosts_updated(1.0, HostUpdateResult.added)  # it was before what has interrupted
    state.commit()
    state.on_hosts_updated(3.0, HostUpdateResult.added)
    state.on_reset()  # what was heard before counts no longer
    state.commit()


def check_the_loop_around_training() -> None:
    happened: list[str] = []

    class Noting(ObjectState):
        def sync(self) -> None:
            happened.append("sync")
            super().sync()

        def restore(self) -> None:
            happened.append(f"restore {getattr(self, 'step', None)}")
            super().restore()

    state = Noting(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, step=0)
    state.register_reset_callbacks([lambda: happened.append("callback")])

    def train(state: Any, word: str) -> str:
        happened.append(f"train {state.step}")
        state.step += 1
        if state.step == 1:
            state.save()
            raise HostsUpdatedInterrupt(skip_sync=True)
        if "failed" not in happened:
            happened.append("failed")
            raise HorovodInternalError("a rank was lost")
        return word

    happened.clear()
    assert run_fn(train, lambda: happened.append("reset"))(state, "done") == "done"
    assert happened == [
        "sync", "train 0", "reset", "callback", "train 1", "failed", "restore 2",
        "reset", "callback", "sync", "train 1",
    ]  # fmt: skip
    notification_manager.handle_hosts_updated(9.0, HostUpdateResult.added)  # nobody listens now
    state.commit()


def check_a_state_that_was_interrupted_before_it_was_the_same_is_synchronised() -> None:
    """Whatever the interrupt says, which can know of the state before alone."""
    happened: list[str] = []

    class Interrupted(ObjectState):
        def sync(self) -> None:
            happened.append("sync")
            if len(happened) == 1:
                raise HostsUpdatedInterrupt(skip_sync=True)
            super().sync()

    state = Interrupted(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, step=hvd.rank())
    assert run_fn(lambda state: state.step, lambda: happened.append("reset"))(state) == 0
    assert happened == ["sync", "reset", "sync"]


def check_handlers_of_the_users() -> None:
    class Thing:
        word = "first"

    class Keeping(StateHandler):
        def __init__(self, value: Thing) -> None:
            super().__init__(value)
            self.save()

        def save(self) -> None:
            self.kept = self.value.word

        def restore(self) -> None:
            self.value.word = self.kept

        def sync(self) -> None:
            self.value.word = hvd.broadcast_object(self.value.word)
            self.save()

    before = get_handler_registry()
    set_handler_registry([*before, (Thing, Keeping)])
    try:
        state = hvd.elastic.TorchState(thing=Thing())
        state.thing.word = f"of rank {hvd.rank()}"
        state.sync()
        assert state.thing.word == "of rank 0"
        state.thing.word = "lost"
        state.restore()
        assert state.thing.word == "of rank 0"
        assert get_handler_registry() is not before
    finally:
        set_handler_registry(before)
    assert get_handler_registry() is before
    get_handler_registry().append((Thing, Keeping))
    try:
        thing = Thing()
        state = hvd.elastic.TorchState(thing=thing)
        thing.word = "lost"
        state.restore()
        assert (state.thing, thing.word) == (thing, "first")
    finally:
        before.pop()
    # Its handler takes another value, though it has left the registry.
    state.thing = other = Thing()
    other.word = "lost"
    state.restore()
    assert (state.thing, other.word) == (other, "first")


def check_a_state_may_leave_out_what_nobody_calls() -> None:
    class Saving(State):
        def save(self) -> None:
            pass

    state = Saving(hvd.broadcast_object, hvd.rank)
    state.commit()
    state.on_reset()
    for method in (state.restore, state.sync):
        with pytest.raises(NotImplementedError):
            method()


def check_what_a_state_is_given_stays_the_same_object() -> None:
    _, optimizer = trained_model()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    sampler: torch.utils.data.DistributedSampler[Any] = torch.utils.data.DistributedSampler(
        torch.utils.data.TensorDataset(torch.arange(8)), num_replicas=hvd.size(), rank=hvd.rank()
    )
    log = [hvd.rank()]
    given: dict[str, Any] = {
        "scheduler": scheduler,
        "plateau": plateau,
        "sampler": sampler,
        "log": log,
    }
    state = hvd.elastic.TorchState(optimizer=optimizer, **given)
    assert all(getattr(state, name) is value for name, value in given.items())
    state.commit()
    optimizer.step()
    scheduler.step()
    sampler.set_epoch(3)
    plateau.best = -1.0
    rate = optimizer.param_groups[0]["lr"]
    state.restore()
    assert (scheduler.last_epoch, sampler.epoch, plateau.best) == (0, 0, float("inf"))
    scheduler.base_lrs[0] += 1  # of the scheduler alone, not of what is kept
    state.restore()
    assert scheduler.base_lrs == [2 * rate]
    assert optimizer.param_groups[0]["lr"] == 2 * rate
    scheduler.last_epoch = sampler.epoch = hvd.rank() + 5
    state.log = log
    state.sync()
    assert (scheduler.last_epoch, sampler.epoch, sampler.rank) == (5, 5, hvd.rank())
    assert state.log == [0]
    assert (state.log is log) == (hvd.rank() == 0)  # the others have rank 0's
    del given["log"]
    assert all(getattr(state, name) is value for name, value in given.items())
    optimizer.step()
    state.scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05  # rank 0's, which the scheduler still moves


def check_values_that_cannot_be_copied_are_kept() -> None:
    weight = torch.ones(2, requires_grad=True)
    computed = weight.sum()
    lock = threading.Lock()
    state = hvd.elastic.TorchState(loss=0.0, losses=[], lock=None)
    state.loss, state.losses = computed, [{"first": computed}, (computed, lock)]
    state.lock = lock
    state.commit()
    assert state.loss is computed
    with torch.no_grad():
        computed += 1
    state.restore()
    assert (state.loss.item(), state.loss.requires_grad) == (2.0, False)
    assert (state.losses[0]["first"].item(), state.losses[1][0].item()) == (2.0, 2.0)
    assert state.losses[1][1] is state.lock is lock
    state.lock = state.losses = None  # which could not travel
    state.sync()
    plain: Any = ObjectState(hvd.broadcast_object, hvd.rank, lock=lock, word="a")
    plain.word = "b"
    plain.restore()
    assert (plain.lock, plain.word) == (lock, "a")


def check_gradients_travel_while_the_backward_pass_runs() -> None:
    """The last layer's gradient has come before the first one's has been computed."""
    first, last = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*first.parameters(), *last.parameters()], lr=1.0), op=hvd.Sum
    )
    seen: list[bool] = []

    def wait_for_the_last(grad: torch.Tensor) -> torch.Tensor:
        flight = optimizer._reducer._sent[0].flight
        while not hvd.poll(flight.handle):
            pass
        seen.append(first.weight.grad is None)
        return grad

    hidden = first(torch.ones(1, 2))
    hidden.register_hook(wait_for_the_last)
    run_backward(last(hidden).sum())
    assert seen == [True]
    optimizer.step()
