"""Elastic state of models and optimizers that it is given after it was made."""

import torch

import horovod.torch as hvd


def model_and_optimizer() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
    """Another state on each rank."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(2, 2)
    sgd = torch.optim.SGD(model.parameters(), lr=hvd.rank() + 1.0)
    return model, hvd.DistributedOptimizer(sgd, model.named_parameters())


def check_values_that_are_assigned_later_are_kept_by_their_state() -> None:
    state = hvd.elastic.TorchState(x=1, known=None)
    model, optimizer = model_and_optimizer()
    other, _ = model_and_optimizer()
    state.model, state.optimizer, state.known = model, optimizer, other
    state.averaged = average = torch.optim.swa_utils.AveragedModel(model)
    state.sampler = sampler = hvd.elastic.ElasticSampler(range(8), shuffle=False)
    state._mine = torch.nn.Linear(1, 1)
    sampler.processed_num = 2 * hvd.rank() + 2
    state.sync()
    assert (state.model, state.optimizer, state.known) == (model, optimizer, other)
    assert (state.averaged, state.sampler) == (average, sampler)
    assert sampler.processed_num == 2
    assert optimizer.param_groups[0]["lr"] == 1.0
    for module in (model, other, average):
        for value in module.state_dict().values():
            everyones = hvd.allgather(value.unsqueeze(0))
            assert torch.equal(everyones, everyones[:1].expand_as(everyones))
    committed = model.weight.detach().clone()
    model.weight.data.fill_(9.0)
    state.restore()
    assert torch.equal(model.weight, committed)
    assert set(state._handlers) == {"model", "optimizer", "known", "averaged", "sampler"}
    assert set(state._saved_state) == {"x"}


def check_a_model_or_optimizer_may_be_given_up() -> None:
    model, optimizer = model_and_optimizer()
    state = hvd.elastic.TorchState(model, optimizer)
    state.optimizer = None
    state.commit()
    state.sync()
    state.restore()
    assert state.optimizer is None
    state.optimizer = optimizer
    state.model = scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # of another kind
    scheduler.last_epoch = 5 + hvd.rank()
    state.sync()
    assert scheduler.last_epoch == 5
    assert (state.model, state.optimizer) == (scheduler, optimizer)
    assert optimizer.param_groups[0]["lr"] == 1.0


def check_what_a_new_rank_lacks_stays_each_ranks_own() -> None:
    """As of one that has come while the others were in a training function, which assigns it."""
    model, _ = model_and_optimizer()
    state = hvd.elastic.TorchState(model, step=hvd.rank())
    if hvd.rank() == 0:
        state.later = torch.nn.Linear(2, 2)
    state.sync()
    assert state.step == 0
    everyones = hvd.allgather(model.weight.detach().unsqueeze(0))
    assert torch.equal(everyones, everyones[:1].expand_as(everyones))
