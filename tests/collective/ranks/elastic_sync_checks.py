"""What elastic state goes back to when rank 0 is lost while it gives out its own."""

from typing import Any

import pytest
import torch

import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.elastic.state import StateHandler, get_handler_registry


def check_what_was_kept_outlives_a_rank_0_that_is_lost_in_between() -> None:
    """All goes back to one commit, however much of rank 0's state had come."""

    class Last:
        """Is synchronised after the model, and before the values without handlers."""

    class Failing(StateHandler):
        def save(self) -> None:
            pass

        restore = save

        def sync(self) -> None:
            if lost == "with a handler":
                raise HorovodInternalError("rank 0 was lost")

    def broadcast(value: Any) -> Any:
        if lost == "with the values":
            raise HorovodInternalError("rank 0 was lost")
        return hvd.broadcast_object(value)

    lost = "never"
    get_handler_registry().append((Last, Failing))
    try:
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=0.0)
        sampler = hvd.elastic.ElasticSampler(range(100))
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
        model = torch.nn.ParameterList([weight])
        state = hvd.elastic.TorchState(
            net=model, adam=optimizer, at=sampler, rates=scheduler, last=Last(), step=0
        )
        state._bcast_object = broadcast

        def go_to(step: int) -> None:
            weight.data.fill_(step)
            optimizer.param_groups[0]["lr"] = float(step)
            sampler.processed_num = state.step = step
            scheduler.last_epoch = step

        def position() -> list[float]:
            found = weight.item(), optimizer.param_groups[0]["lr"], sampler.processed_num
            return [*found, scheduler.last_epoch, state.step]

        go_to(3)
        state.save()
        for lost in ("with a handler", "with the values"):
            go_to(7)
            with pytest.raises(HorovodInternalError):
                state.sync()
            state.restore()
            assert position() == [3.0] * 5, (lost, position())
        lost = "never"
        go_to(7 + hvd.rank())
        state.sync()
        go_to(9)
        state.restore()
        assert position() == [7.0] * 5, position()
    finally:
        get_handler_registry().pop()


class Counter(torch.nn.Linear):
    """A module with a state that is no tensor, and one that is a new tensor each time."""

    def __init__(self, batches: int) -> None:
        super().__init__(2, 1)
        self.batches = batches
        self.seen = float(batches)

    def get_extra_state(self) -> Any:
        return {"batches": self.batches, "seen": torch.tensor(self.seen)}

    def set_extra_state(self, state: Any) -> None:
        self.batches, self.seen = state["batches"], state["seen"].item()


class Scale(torch.nn.Module):
    """A module whose extra state is a tensor of its own making."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def get_extra_state(self) -> torch.Tensor:
        return torch.tensor(self.scale)

    def set_extra_state(self, state: torch.Tensor) -> None:
        self.scale = state.item()


def check_extra_state_of_modules_is_rank_0s() -> None:
    counter, scale = Counter(hvd.rank() + 3), Scale(hvd.rank() + 0.5)
    model = torch.nn.Sequential(counter, torch.nn.BatchNorm1d(1), scale)
    state = hvd.elastic.TorchState(model=model)
    state.sync()
    assert (counter.batches, counter.seen, scale.scale) == (3, 3.0, 0.5)
    weights = hvd.allgather(counter.weight.detach().unsqueeze(0))
    assert torch.equal(weights, weights[:1].expand_as(weights))
    counter.batches = 9
    state.restore()
    assert counter.batches == 3


class Told(torch.nn.Module):
    """A module that keeps the object with which its extra state is set, as in PyTorch's guide."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(1)  # whose state has a version
        self.seen: dict[str, Any] = {"batches": 0, "mean": torch.zeros(1)}
        self.versions: list[Any] = []

    def get_extra_state(self) -> Any:
        return self.seen

    def set_extra_state(self, state: Any) -> None:
        self.seen = state

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        self.versions.append(state_dict._metadata["norm"])
        return super().load_state_dict(state_dict, *args, **kwargs)


class Keeping(hvd.elastic.ElasticSampler):
    """A sampler that keeps account of its own, as Horovod's did."""

    drawn: set[int]

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "drawn": self.drawn}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.drawn = state_dict["drawn"]


def check_what_is_changed_after_a_restore_was_not_committed() -> None:
    model, sampler = Told(), Keeping(range(8))
    sampler.drawn = set()
    state = hvd.elastic.TorchState(model=model, sampler=sampler)

    def go_on() -> None:
        model.seen["batches"] += 10
        model.seen["mean"] += 10
        sampler.drawn.add(10 + len(sampler.drawn))

    for committed in (state.commit, state.sync):
        model.seen["batches"], model.seen["mean"] = 5, torch.full((1,), 5.0)
        sampler.drawn = {5}
        committed()
        for _ in range(3):
            go_on()
            state.restore()
            assert model.seen == {"batches": 5, "mean": torch.full((1,), 5.0)}
            assert sampler.drawn == {5}
    assert all(version == {"version": 2} for version in model.versions)
