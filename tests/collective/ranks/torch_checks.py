"""The PyTorch front end: collectives, gradients and the distributed optimizer."""

import copy
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.array as hvd_array
import horovod.torch as hvd
from horovod._session import SESSION

DTYPES = {
    torch.uint8: 0,
    torch.int8: 0,
    torch.int16: 0,
    torch.int32: 0,
    torch.int64: 0,
    torch.float16: 1,
    torch.bfloat16: 1,
    torch.float32: 1,
    torch.float64: 1,
}


def run_backward(loss: Any) -> None:
    """The method itself, which PyTorch has not typed."""
    loss.backward()


def check_front_ends_share_one_runtime() -> None:
    assert SESSION.member.runtime.transport == os.environ["HOROVOD_TRANSPORT"]
    hvd.init()
    assert hvd.is_initialized()
    assert hvd.rank() == hvd_array.rank()
    assert hvd.size() == hvd_array.size() > 1


def check_allreduce_of_every_type_and_op() -> None:
    for dtype, floating in DTYPES.items():
        ours = [torch.arange(6).reshape(2, 3).remainder(4) + r for r in range(hvd.size())]
        stack = torch.stack(ours)
        mine = ours[hvd.rank()].to(dtype)
        for op, expected in (
            (hvd.Sum, stack.sum(0)),
            (hvd.Min, stack.min(0).values),
            (hvd.Max, stack.max(0).values),
            (hvd.Product, stack.prod(0)),
        ):
            result = hvd.allreduce(mine, op=op)
            assert result.dtype == dtype
            assert torch.equal(result, expected.to(dtype)), f"{dtype} {op}"
        if floating:
            mean = stack.to(torch.float64).mean(0)
            torch.testing.assert_close(hvd.allreduce(mine), mean.to(dtype), rtol=1e-2, atol=1e-2)
    either = hvd.allreduce(torch.tensor([hvd.rank() == 0, False]), op=hvd.Max)
    assert either.tolist() == [True, False]


def check_allgather_and_broadcast_of_every_type() -> None:
    for dtype in (*DTYPES, torch.bool):
        mine = torch.full((hvd.rank(), 2), hvd.rank()).to(dtype)
        expected = torch.cat([torch.full((r, 2), r) for r in range(hvd.size())]).to(dtype)
        result = hvd.allgather(mine)
        assert result.dtype == dtype
        assert torch.equal(result, expected)
        for root in range(hvd.size()):
            sent = hvd.broadcast(torch.tensor([hvd.rank(), 1]).to(dtype), root)
            assert torch.equal(sent, torch.tensor([root, 1]).to(dtype))


def check_scalars_and_empty_tensors() -> None:
    assert hvd.allreduce(torch.tensor(2.0), op=hvd.Sum).item() == 2.0 * hvd.size()
    assert hvd.broadcast(torch.tensor(hvd.rank()), 1).item() == 1
    assert hvd.allreduce(torch.empty(0, 3)).shape == (0, 3)
    assert hvd.allgather(torch.empty(0, 3)).shape == (0, 3)


def check_non_contiguous_tensors() -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(hvd.allreduce(matrix.t(), op=hvd.Max), matrix.t())
    work = torch.zeros(2, 3)
    work.t().copy_(torch.arange(6.0).reshape(3, 2))
    expected = work * hvd.size()
    assert hvd.allreduce_(work.t(), op=hvd.Sum).shape == (3, 2)
    assert torch.equal(work, expected)
    hvd.broadcast_(work[:, ::2], 0)
    channels_last = torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)
    assert torch.equal(hvd.allreduce_(channels_last), torch.ones(1, 2, 3, 4))


def check_in_place_gives_the_same_tensor_back() -> None:
    tensor = torch.full((3,), float(hvd.rank()))
    assert hvd.allreduce_(tensor, op=hvd.Max) is tensor
    assert tensor.tolist() == [hvd.size() - 1] * 3
    handle = hvd.broadcast_async_(torch.full((2,), hvd.rank()), 0)
    assert hvd.synchronize(handle).tolist() == [0, 0]
    handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
    assert hvd.synchronize(handle) is tensor
    assert hvd.synchronize(handle) is None
    leaf = torch.nn.Parameter(torch.full((2,), float(hvd.rank())))
    hvd.broadcast_(leaf, hvd.size() - 1)
    assert leaf.tolist() == [hvd.size() - 1] * 2


def check_average_is_deprecated_but_works() -> None:
    with pytest.warns(DeprecationWarning, match="has been replaced with `op`"):
        result = hvd.allreduce(torch.ones(2), average=False)
    assert result.tolist() == [hvd.size()] * 2
    with (
        pytest.warns(DeprecationWarning, match="has been replaced"),
        pytest.raises(ValueError, match="supersedes average"),
    ):
        hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum)


def check_compression() -> None:
    values = torch.tensor([1.0, 2.5, -3.0])
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        result = hvd.allreduce(values, op=hvd.Sum, compression=compression)
        assert result.dtype == torch.float32
        assert torch.equal(result, values * hvd.size())
    whole = torch.tensor([7])
    assert hvd.allreduce(whole, op=hvd.Max, compression=hvd.Compression.fp16).dtype == torch.int64


def check_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Tensor type torch\.ComplexFloatTensor is not supported"):
        hvd.allreduce(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="layout"):
        hvd.allreduce(torch.eye(2).to_sparse())
    with pytest.raises(ValueError, match="Tensors on meta are not supported yet"):
        hvd.allreduce(torch.empty(2, device="meta"))
    with pytest.raises(TypeError, match="not on list"):
        hvd.allreduce_async([1.0])  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="alltoall is not supported yet"):
        hvd.alltoall  # noqa: B018 - the attribute itself is asked for
    assert not hasattr(hvd, "join")


def check_gradient_of_allreduce() -> None:
    for op, factor in ((hvd.Sum, hvd.size() * (hvd.size() + 1) / 2), (hvd.Average, None)):
        tensor = torch.ones(3, requires_grad=True)
        reduced = hvd.allreduce(tensor, op=op)
        run_backward((reduced * (hvd.rank() + 1)).sum())
        expected = factor if factor is not None else (hvd.size() + 1) / 2
        assert tensor.grad is not None
        assert tensor.grad.tolist() == [expected] * 3


def check_gradient_of_allgather() -> None:
    rows = hvd.rank() + 1
    tensor = torch.ones(rows, 2, requires_grad=True)
    gathered = hvd.allgather(tensor, name="gathered")
    weights = torch.arange(float(len(gathered))).unsqueeze(1)
    run_backward((gathered * weights).sum())
    before = sum(range(1, hvd.rank() + 1))
    assert tensor.grad is not None
    assert tensor.grad[:, 0].tolist() == [float(before + i) for i in range(rows)]


def check_gradient_of_broadcast() -> None:
    tensor = torch.ones(2, requires_grad=True)
    run_backward((hvd.broadcast(tensor, 1) * (hvd.rank() + 1)).sum())
    assert tensor.grad is not None
    mean = (hvd.size() + 1) / 2
    assert tensor.grad.tolist() == ([mean] * 2 if hvd.rank() == 1 else [0.0] * 2)


def small_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def batches() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(hvd.size(), 6, 4, generator=generator)
    return inputs, inputs.sum(-1, keepdim=True)


def train(
    wrap: Callable[..., Any], data: tuple[torch.Tensor, torch.Tensor], passes: int = 1
) -> list[torch.Tensor]:
    """Three steps of momentum SGD; each batch is cut into as many passes."""
    model = small_model()
    optimizer = wrap(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        named_parameters=model.named_parameters(),
    )
    for _ in range(3):
        optimizer.zero_grad()
        for inputs, targets in zip(data[0].chunk(passes), data[1].chunk(passes), strict=True):
            loss = torch.nn.functional.mse_loss(model(inputs), targets) / passes
            run_backward(loss)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def train_alone() -> list[torch.Tensor]:
    """What one process makes of everyone's data."""
    inputs, targets = batches()
    return train(lambda optimizer, **_: optimizer, (inputs.flatten(0, 1), targets.flatten(0, 1)))


def assert_close(ours: list[torch.Tensor], theirs: list[torch.Tensor], tolerance: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def my_data() -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = batches()
    return inputs[hvd.rank()], targets[hvd.rank()]


def check_distributed_steps_equal_one_with_all_data() -> None:
    assert_close(train(hvd.DistributedOptimizer, my_data()), train_alone(), 1e-6)


def check_options_of_the_optimizer_lead_to_the_same() -> None:
    for options, tolerance in (
        ({"compression": hvd.Compression.fp16}, 1e-2),
        ({"compression": hvd.Compression.bf16}, 5e-2),
        ({"gradient_predivide_factor": 2.0}, 1e-6),
    ):
        trained = train(
            lambda optimizer, options=options, **kw: hvd.DistributedOptimizer(
                optimizer, **kw, **options
            ),
            my_data(),
        )
        assert_close(trained, train_alone(), tolerance)


def check_several_passes_add_up_before_a_step() -> None:
    trained = train(
        lambda optimizer, **kw: hvd.DistributedOptimizer(
            optimizer, **kw, backward_passes_per_step=3
        ),
        my_data(),
        passes=3,
    )
    assert_close(trained, train_alone(), 1e-6)


def check_one_pass_too_many_is_refused() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(AssertionError, match="more than backward_passes_per_step times"):
        model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def check_zero_grad() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
    )
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(AssertionError, match="prohibited as it can cause a race condition"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[0.0, 0.0]]
    optimizer.zero_grad(set_to_none=True)
    assert model.weight.grad is None


def check_synchronize_lets_gradients_be_clipped() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters()
    )
    (model(torch.ones(1, 2)).sum() * (hvd.rank() + 1)).backward()
    optimizer.synchronize()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[(hvd.size() + 1) / 2] * 2]
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
    before = model.weight.detach().clone()
    with optimizer.skip_synchronize(), warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    torch.testing.assert_close(model.weight.detach(), before - 0.5)


def check_step_after_synchronize_warns() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="without optimizer.skip_synchronize"):
        optimizer.step()


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


def check_parameters_that_only_some_ranks_use() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(2, 1, bias=False) for _ in range(2)])
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters()
    )
    before = [p.detach().clone() for p in model.parameters()]
    model[0 if hvd.rank() == 0 else 1](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    after = list(model.parameters())
    torch.testing.assert_close(after[0].detach(), before[0] - 1 / hvd.size())
    others = (hvd.size() - 1) / hvd.size()
    torch.testing.assert_close(after[1].detach(), before[1] - others)


def check_parameters_added_or_unfrozen_later_are_reduced() -> None:
    first, second, frozen = (torch.nn.Linear(1, 1, bias=False) for _ in range(3))
    frozen.requires_grad_(requires_grad=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*first.parameters(), *frozen.parameters()], lr=1.0)
    )
    optimizer.add_param_group({"params": list(second.parameters())})
    frozen.requires_grad_(requires_grad=True)
    loss = sum(layer(torch.ones(1, 1)).sum() for layer in (first, second, frozen))
    (loss * (hvd.rank() + 1)).backward()
    optimizer.synchronize()
    for layer in (first, second, frozen):
        assert layer.weight.grad is not None
        assert layer.weight.grad.item() == (hvd.size() + 1) / 2
    with optimizer.skip_synchronize():
        optimizer.step()


def check_the_wrapped_optimizer_is_still_itself() -> None:
    model = torch.nn.Linear(2, 1)
    inner = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.ones(1, 2)).sum().backward()
    inner.step()  # state exists before it is wrapped
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.1)
    optimizer = hvd.DistributedOptimizer(inner)
    assert isinstance(optimizer, torch.optim.Adam)
    assert type(optimizer).__name__ == "Adam"
    assert optimizer.state_dict()["state"][0]["step"] == 1
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scheduler has not seen the wrapper's steps
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    after = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    after.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.005)


def check_arguments_of_the_optimizer() -> None:
    model = torch.nn.Linear(2, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    weight, bias = model.parameters()
    for options, error, text in (
        ({"named_parameters": [weight]}, ValueError, "should be a sequence of tuples"),
        ({"named_parameters": [("a", weight), ("a", bias)]}, ValueError, "duplicates: a"),
        ({"named_parameters": [("a", weight)]}, ValueError, "were not named"),
        ({"backward_passes_per_step": 0}, ValueError, "must be > 0"),
        ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, ValueError, "op != Average"),
        ({"op": hvd.Adasum}, NotImplementedError, "op=Adasum"),
        ({"groups": 2}, NotImplementedError, "groups"),
        ({"num_groups": 2}, NotImplementedError, "num_groups"),
        ({"sparse_as_dense": True}, NotImplementedError, "sparse_as_dense"),
    ):
        with pytest.raises(error, match=text):
            hvd.DistributedOptimizer(sgd, **options)


def check_broadcast_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for value in model.state_dict().values():
            value.fill_(hvd.rank() + 1)
    hvd.broadcast_parameters(model.state_dict(), 1)
    for value in model.state_dict().values():
        assert torch.all(value == 2)
    hvd.broadcast_parameters(list(model.named_parameters()), 0)
    hvd.broadcast_parameters([torch.zeros(2)], 0)
    with pytest.raises(ValueError, match="invalid params of type"):
        hvd.broadcast_parameters(model.named_parameters(), 0)


def check_broadcast_optimizer_state() -> None:
    for make in (
        lambda p: torch.optim.SGD(p, lr=0.1 * (hvd.rank() + 1), momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=0.1 * (hvd.rank() + 1), amsgrad=True),
        lambda p: torch.optim.Adagrad(p, lr=0.1 * (hvd.rank() + 1)),
    ):
        torch.manual_seed(hvd.rank())
        model = torch.nn.Linear(3, 2)
        optimizer = make(model.parameters())
        if hvd.rank() == 0:  # the others have no state yet
            model(torch.randn(4, 3)).sum().backward()
            optimizer.step()
        root_state = hvd.broadcast_object(copy.deepcopy(optimizer.state_dict()), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        state = optimizer.state_dict()
        assert state["param_groups"] == root_state["param_groups"]
        assert state["state"].keys() == root_state["state"].keys()
        for index, entries in root_state["state"].items():
            for key, value in entries.items():
                ours = state["state"][index][key]
                assert torch.equal(ours, value) if torch.is_tensor(value) else ours == value
    lbfgs = torch.optim.LBFGS(torch.nn.Linear(1, 1).parameters())
    with pytest.raises(ValueError, match=r"cannot broadcast torch\.optim\.LBFGS state"):
        hvd.broadcast_optimizer_state(lbfgs, 0)


def check_objects_with_tensors_and_lambdas() -> None:
    function = hvd.broadcast_object(lambda x: x + 1 if hvd.rank() == 0 else None)
    assert callable(function)
    gathered = hvd.allgather_object({"rank": hvd.rank(), "tensor": torch.ones(2)})
    assert [entry["rank"] for entry in gathered] == list(range(hvd.size()))


def check_data_loaders_may_fork() -> None:
    """Workers of a data loader know their rank, and are told that they cannot run collectives."""

    class Dataset(torch.utils.data.Dataset[tuple[int, str]]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[int, str]:
            try:
                hvd.allreduce(torch.ones(1))
            except RuntimeError as error:
                return hvd.rank(), str(error)
            return hvd.rank(), ""

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's and Python's opinions of forking with threads
        loader = torch.utils.data.DataLoader(
            Dataset(), num_workers=1, batch_size=None, multiprocessing_context="fork"
        )
        for rank, message in loader:
            assert rank == hvd.rank()
            assert "is a fork of process" in message
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def check_shutdown_and_init_again() -> None:
    for turn in range(50):
        hvd.shutdown()
        assert not hvd.is_initialized()
        hvd.init()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size(), turn
    hvd.shutdown()
    hvd.shutdown()
    with pytest.raises(ValueError, match=r"Horovod has not been initialized; use hvd\.init"):
        hvd.rank()
    hvd.init()
