"""States of ranks that have come while the others were in a training function."""

import copy
from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.torch.elastic.state import OptimizerStateHandler, get_handler_registry


class Caching(torch.nn.Module):
    """A module whose first step makes a buffer."""

    def __init__(self, cache: torch.Tensor | None) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.cache: torch.Tensor | None
        self.register_buffer("cache", cache)
        self.fixed: torch.Tensor
        self.register_buffer("fixed", torch.ones(1), persistent=False)


def check_buffers_are_there_as_on_rank_0() -> None:
    for root, others in ((torch.ones(2), None), (None, torch.ones(3)), (torch.ones(1),) * 2):
        caching = Caching(root if hvd.rank() == 0 else others)
        state = hvd.elastic.TorchState(model=torch.nn.Sequential(caching))
        state.sync()
        assert (caching.cache is None) == (root is None)
        assert root is None or (caching.cache is not None and torch.equal(caching.cache, root))
        assert caching.fixed.tolist() == [1.0]
        weights = hvd.allgather(caching.linear.weight.detach())
        assert torch.equal(weights, weights[:1].expand_as(weights))
        state.restore()


class Growing(torch.nn.Module):
    """A module whose steps register a buffer, and replace another one by a longer one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.seen: torch.Tensor
        self.register_buffer("seen", torch.empty(0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "scale"):
            self.register_buffer("scale", torch.ones(2, dtype=torch.float64))
        self.seen = torch.cat([self.seen, inputs.flatten()])
        result: torch.Tensor = self.linear(inputs)
        return result


def check_buffers_are_what_they_are_on_rank_0() -> None:
    model = Growing()
    state = hvd.elastic.TorchState(model=model)
    if hvd.rank() == 0:
        model(torch.ones(3, 1))
    state.sync()
    assert model.seen.tolist() == [1.0] * 3
    assert model.state_dict()["scale"].dtype == torch.float64
    for value in model.state_dict().values():
        everyones = hvd.allgather(value.detach().reshape(1, -1))
        assert torch.equal(everyones, everyones[:1].expand_as(everyones))
    model(torch.ones(3, 1))
    state.restore()
    assert model.seen.tolist() == [1.0] * 3


def check_a_state_goes_back_to_before_its_buffers_were_made() -> None:
    model = Growing()
    state = hvd.elastic.TorchState(model=model)
    model(torch.ones(3, 1))
    state.restore()
    assert list(model.state_dict()) == ["seen", "linear.weight", "linear.bias"]
    assert model.seen.tolist() == []
    model(torch.ones(3, 1))
    assert "scale" in model.state_dict()
    caching = Caching(None)
    state = hvd.elastic.TorchState(model=caching)
    caching.cache, caching.fixed = torch.ones(2), torch.ones(4)
    state.restore()
    assert "cache" not in caching.state_dict()
    assert caching.fixed.tolist() == [1.0] * 4


class Doubling(torch.nn.Module):
    """A module that PyTorch can script, with a buffer that steps make longer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.seen: torch.Tensor
        self.register_buffer("seen", torch.ones(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([self.seen, self.seen])
        result: torch.Tensor = self.linear(inputs)
        return result


def check_buffers_of_a_scripted_module() -> None:
    model = torch.jit.script(Doubling())
    state = hvd.elastic.TorchState(model=model)
    model(torch.ones(3, 1))
    state.restore()
    assert model.seen.tolist() == [1.0]
    if hvd.rank() == 0:
        model(torch.ones(3, 1))
    state.sync()
    assert model.seen.tolist() == [1.0] * 2


def check_a_converted_model_goes_back_in_its_own_type() -> None:
    for kind in (torch.float64, torch.bfloat16):
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        state = hvd.elastic.TorchState(model=model)
        model.to(kind)
        mean = model[1].running_mean
        assert isinstance(mean, torch.Tensor)
        mean.fill_(3.0)
        state.restore()
        types = {value.dtype for value in model.state_dict().values()}
        assert types == {kind, torch.int64}  # the number of batches
        assert model[1].running_mean is mean
        assert mean.tolist() == [0.0] * 3
        state.sync()


def check_modules_that_have_several_names_or_parameters_for_buffers() -> None:
    model = torch.nn.ModuleDict({"first": Growing()})
    model["second"] = model["first"]
    state = hvd.elastic.TorchState(model=model)
    model["second"](torch.ones(3, 1))
    state.restore()
    assert "second.scale" not in model.state_dict()
    joined = torch.zeros(2)
    model = torch.nn.ModuleDict({"first": Caching(joined), "second": Caching(joined)})
    state = hvd.elastic.TorchState(model=model)
    model["first"].cache = model["second"].cache = torch.ones(3)
    state.restore()
    assert model["first"].cache is model["second"].cache
    assert model["first"].cache.tolist() == [0.0] * 2
    one, two = Caching(torch.ones(1)), Caching(torch.zeros(1))
    state = hvd.elastic.TorchState(model=torch.nn.ModuleList([one, two]))
    one.cache = two.cache = torch.full((3,), 5.0)
    state.restore()
    assert torch.equal(one.cache, torch.ones(1))
    assert torch.equal(two.cache, torch.zeros(1))
    frozen = torch.nn.BatchNorm1d(3)
    state = hvd.elastic.TorchState(model=frozen)
    weight = frozen.weight.detach()
    del frozen.weight
    frozen.register_buffer("weight", weight)
    weight.zero_()
    state.restore()
    assert weight.tolist() == [1.0] * 3


def check_buffers_take_the_types_that_steps_gave_them() -> None:
    """Else a newcomer would have rank 0's numbers as whole ones."""
    for converted in (False, True):
        caching = Caching(torch.ones(2, dtype=torch.int64))
        if converted:
            caching.double()
        state = hvd.elastic.TorchState(model=caching)
        if hvd.rank() == 0:
            caching.cache = torch.full((2,), 0.5, dtype=caching.linear.weight.dtype)
        state.sync()
        assert caching.cache is not None
        assert caching.cache.tolist() == [0.5] * 2
        assert caching.cache.dtype == caching.linear.weight.dtype


class Adapted(torch.nn.Module):
    """A module whose state is only a part of it, as of a large model with adapters."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner, self.adapter = inner, torch.nn.Linear(1, 1)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.adapter.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.adapter.load_state_dict(*args, **kwargs)

    def named_modules(self, memo: Any = None, prefix: str = "") -> Any:  # type: ignore[override]
        """With a signature of former times."""
        return super().named_modules(memo, prefix)


def check_what_a_state_leaves_out_stays() -> None:
    inner = Growing()
    state = hvd.elastic.TorchState(model=Adapted(inner))
    inner(torch.ones(3, 1))
    state.restore()
    assert inner.seen.tolist() == [1.0] * 3
    assert "scale" in inner.state_dict()


class OwnHandler(OptimizerStateHandler):
    """As a script may have one, which does not know what ours keeps."""

    def save(self) -> None:
        self._kept = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._kept)


def check_a_handler_of_the_scripts_own() -> None:
    registry = get_handler_registry()
    registry.insert(0, (torch.optim.SGD, OwnHandler))
    try:
        weight = torch.nn.Parameter(torch.zeros(2))
        state = hvd.elastic.TorchState(optimizer=torch.optim.SGD([weight], lr=1.0))
        run_backward(weight.sum())
        state.on_reset()
        assert weight.grad is None
    finally:
        registry.pop(0)


def check_a_lazy_module_becomes_what_it_is_on_rank_0() -> None:
    model = torch.nn.LazyLinear(1)
    weight = model.weight
    if hvd.rank() == 0:
        model(torch.ones(1, 3))
    state = hvd.elastic.TorchState(model=model)
    state.sync()
    assert model.weight is weight
    weights = hvd.allgather(weight.detach())
    assert weights.shape == (hvd.size(), 3)
    assert torch.equal(weights, weights[:1].expand_as(weights))


def check_values_that_only_new_ranks_have_as_such() -> None:
    """The training function has put a sampler in place of rank 0's only value."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    state = hvd.elastic.TorchState(model, optimizer, sampler=None)
    if hvd.rank() == 0:
        state.sampler = hvd.elastic.ElasticSampler(range(4))
    state.sync()
    assert (state.sampler is None) == (hvd.rank() != 0)


def check_gradients_of_the_last_step_are_in_no_other() -> None:
    """Scripts may call `zero_grad()` after the commit at which hosts have changed."""
    for options in ({}, {"backward_passes_per_step": 2}, {"gradient_as_bucket_view": True}):
        weight = torch.nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), **options)
        state = hvd.elastic.TorchState(optimizer=optimizer)
        passes = options.get("backward_passes_per_step", 1)
        for step in range(1, 3):
            for _ in range(passes):
                run_backward(weight.sum())
            optimizer.step()
            assert weight.tolist() == [-step * passes] * 2, options
            state.save()
            state.on_reset()
            state.sync()


def check_no_rank_has_dense_gradients_for_sparse_ones() -> None:
    """As zeros are that fresh optimizers get, where rank 0's is none."""
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), 0.1, momentum=0.9))
    if hvd.rank() == 0:
        optimizer.state[table.weight]["momentum_buffer"] = torch.ones(4, 2)
    state = hvd.elastic.TorchState(model=table, optimizer=optimizer)
    state.sync()
    assert table.weight.grad is None
    run_backward(table(torch.tensor([1])).sum())
    gradient: torch.Tensor | None = getattr(table.weight, "grad")  # noqa: B009 - which mypy takes for None
    assert gradient is not None
    assert gradient.is_sparse
    optimizer.step()
    table.weight.grad = torch.ones(4, 2) if hvd.rank() == 0 else None  # from before `sparse`
    state.sync()
    run_backward(table(torch.tensor([1])).sum())
    gradient = table.weight.grad
    assert gradient is not None
    assert not gradient.is_sparse
    gradient.zero_()
    optimizer.step()
    weights = hvd.allgather(table.weight.detach().unsqueeze(0))
    assert torch.equal(weights, weights[:1].expand_as(weights))
