"""The distributed optimizer of the PyTorch front end."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.default_device import with_buckets
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.compression import NoneCompressor


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


def check_each_gradient_of_a_group_is_compressed_once() -> None:
    compressed: list[torch.dtype] = []

    class Counting(NoneCompressor):
        @staticmethod
        def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, None]:
            compressed.append(tensor.dtype)
            return tensor, None

    # The first one's type travels together, each of the others alone.
    dtypes = [torch.float32, torch.float64, torch.float32, torch.float64]
    parameters = [torch.nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in dtypes]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=1.0), compression=Counting, groups=[parameters], op=None
    )
    own = hvd.rank() + 1.0
    for steps in (1, 2):
        run_backward(sum((parameter * own).sum() for parameter in parameters))
        optimizer.synchronize()
        assert sorted(map(str, compressed)) == sorted(map(str, dtypes * steps))
        for parameter in parameters:
            assert parameter.grad is not None
            assert parameter.grad.tolist() == [(hvd.size() + 1) / 2] * 3
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad()


def check_a_compiled_step_compiles_nothing_for_each_parameter() -> None:
    def train_compiled(wrap: Callable[..., Any]) -> list[torch.Tensor]:
        parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(12)]
        optimizer = wrap(torch.optim.SGD(parameters, lr=0.1))

        def step() -> None:
            optimizer.zero_grad()
            run_backward(sum((each * each).sum() for each in parameters))
            optimizer.step()

        compiled: Callable[[], None] = torch.compile(step, backend="eager")
        for _ in range(3):
            compiled()
        return [parameter.detach() for parameter in parameters]

    heard: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("torch._dynamo").addHandler(listener)
    try:
        trained = train_compiled(hvd.DistributedOptimizer)
    finally:
        logging.getLogger("torch._dynamo").removeHandler(listener)
    assert_close(trained, train_compiled(lambda optimizer: optimizer), 0.0)
    assert not [line for line in heard if "recompile_limit" in line]


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
    other = torch.nn.Linear(2, 1)
    grouped = hvd.DistributedOptimizer(
        torch.optim.SGD(other.parameters(), lr=0.1), groups=[[other.weight, other.bias]]
    )
    run_backward(other.weight.sum())  # waits for the other one of its group
    with pytest.raises(AssertionError, match="more than backward_passes_per_step times"):
        run_backward(other.weight.sum())
    grouped.step()


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


def check_zero_grad_between_the_passes_of_a_step_is_refused() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), backward_passes_per_step=2
    )
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(AssertionError, match="prohibited as it can cause a race condition"):
        optimizer.zero_grad()
    optimizer.load_state_dict(state_dict=optimizer.state_dict())
    optimizer.zero_grad()
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[2.0, 2.0]]


def check_passes_are_counted_with_adasum_too() -> None:
    if hvd.size() & (hvd.size() - 1):
        return
    layer = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), op=hvd.Adasum)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = layer(torch.ones(1, 2)).sum()
        run_backward(loss)
        return loss

    for passes in (1, 2):
        optimizer.set_backward_passes_per_step(passes)
        for _ in range(passes):
            run_backward(layer(torch.ones(1, 2)).sum())
            with pytest.raises(AssertionError, match="prohibited as it can cause a race"):
                optimizer.zero_grad()
        with pytest.raises(AssertionError, match="more than backward_passes_per_step times"):
            run_backward(layer(torch.ones(1, 2)).sum())
        optimizer.step()
        optimizer.zero_grad()
        assert torch.is_tensor(optimizer.step(closure))
    optimizer.zero_grad()
    # A step that was not made is forgotten with the state that is loaded.
    run_backward(layer(torch.ones(1, 2)).sum())
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    (added,) = optimizer.param_groups[1]["params"]
    run_backward(added * 2.0)
    with pytest.raises(AssertionError, match="prohibited as it can cause a race"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def check_a_model_may_get_another_optimizer() -> None:
    model = torch.nn.Linear(2, 1)
    for rate in (0.1, 0.01):
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=rate), named_parameters=model.named_parameters()
        )
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        del optimizer
    for _ in range(2 if hvd.size() & (hvd.size() - 1) == 0 else 0):
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum
        )
        model(torch.ones(1, 2)).sum().backward()
        del optimizer  # with its count of one pass


def check_step_hooks_run_once_a_step() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    steps: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: steps.append("before"))
    optimizer.register_step_post_hook(lambda *_: steps.append("after"))
    for expected in (["before", "after"], ["before", "after"] * 2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert steps == expected
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()


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
    optimizer.zero_grad()
    (model(torch.ones(1, 2)).sum() * (hvd.rank() + 1)).backward()
    optimizer.step()  # waits for the gradients itself again
    torch.testing.assert_close(model.weight.detach(), before - 0.5 - (hvd.size() + 1) / 2)


def check_a_state_is_taken_over_whatever_has_become_of_gradients() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
    unlike = torch.nn.Parameter(torch.zeros(2 + hvd.rank()))
    failing = hvd.DistributedOptimizer(torch.optim.SGD([unlike], lr=1.0))
    run_backward(unlike.sum())
    with pytest.raises(HorovodInternalError):
        failing.synchronize()
    run_backward(unlike.sum())
    failing.load_state_dict(failing.state_dict())  # as when a rank was lost
    run_backward(weight.sum())
    optimizer.synchronize()
    optimizer.load_state_dict(optimizer.state_dict())
    run_backward(weight.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing has been synchronised since
        optimizer.step()
    assert weight.tolist() == [-2.0, -2.0]


def check_step_after_synchronize_warns() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="without optimizer.skip_synchronize"):
        optimizer.step()


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


def check_parameters_of_a_group_added_after_one_was_deleted_have_names_of_their_own() -> None:
    for options in with_buckets({}):
        first, second, third, fourth = (torch.nn.Linear(1, 1, bias=False) for _ in range(4))
        groups = [{"params": list(layer.parameters())} for layer in (first, second)]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(groups, lr=1.0), **options)
        for added in (third, fourth):
            optimizer.param_groups.pop(0)  # whose parameters get gradients still
            optimizer.add_param_group({"params": list(added.parameters())})
            for _ in ("makes the buckets", "sends while it runs"):
                optimizer.zero_grad()
                loss = sum(layer(torch.ones(1, 1)).sum() for layer in (first, second, third, added))
                run_backward(loss * (hvd.rank() + 1))
                optimizer.step()
            assert added.weight.grad is not None
            times = 2 if added is third else 1  # it is in the sum twice
            assert added.weight.grad.item() == times * (hvd.size() + 1) / 2
        names = list(optimizer._parameter_names.values())
        assert len(set(names)) == len(names) == 4


def check_the_stand_in_for_a_sparse_gradient_is_where_its_parameter_is() -> None:
    """On a device that every PyTorch has, and that is refused when the gradient is to travel."""
    table = torch.nn.Embedding(10, 3, sparse=True, device="meta")
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1))
    table.weight.grad = torch.sparse_coo_tensor(
        torch.empty((1, 2), dtype=torch.int64, device="meta"),
        torch.empty((2, 3), device="meta"),
        (10, 3),
    )
    for _ in ("a gradient", "none"):
        with pytest.raises(ValueError, match="on the device meta has no data"):
            optimizer.synchronize()
        table.weight.grad = None


def check_steps_in_inference_mode_leave_ordinary_gradients() -> None:
    """Also of a parameter that has none yet, and of buckets that are made then."""
    for options in with_buckets({}):
        used, unused = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
        plain = torch.optim.SGD([used, unused], lr=0.1)
        optimizer = hvd.DistributedOptimizer(plain, op=hvd.Sum, **options)
        for step in range(3):
            optimizer.zero_grad(set_to_none=False)
            run_backward(used.sum() if step == 0 else used.sum() + unused.sum())
            with torch.inference_mode():
                optimizer.step()
            for parameter in used, unused:
                assert parameter.grad is not None
                assert not parameter.grad.is_inference(), options
                expected = 0 if parameter is unused and step == 0 else hvd.size()
                assert parameter.grad.tolist() == [expected] * 3
