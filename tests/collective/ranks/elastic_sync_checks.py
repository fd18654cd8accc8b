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
