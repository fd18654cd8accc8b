"""Gradients are sent after what a script's own hooks have made of them, and none goes unnoticed."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.default_device import with_buckets

Options = dict[str, Any]
PLACES: Sequence[Options] = with_buckets({}, {"groups": 1})


def add_hook(parameter: Any, hook: Callable[[torch.Tensor], None]) -> None:
    """The method, which tensors of PyTorch 2.0 do not have."""
    parameter.register_post_accumulate_grad_hook(hook)


HOOKS = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")


def two_parameters() -> list[torch.Tensor]:
    return [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]


def mine() -> float:
    return hvd.rank() + 1.0


def mean() -> float:
    return (hvd.size() + 1) / 2


def is_on_its_way(optimizer: Any, parameter: torch.Tensor) -> bool:
    handle, _ = optimizer._handles.get(parameter, (None, None))
    return handle is not None


def check_hooks_that_are_registered_later_change_what_is_sent() -> None:
    if not HOOKS:
        return
    for options in PLACES:
        parameters = two_parameters()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), **options)
        early: list[bool] = []

        def halve(parameter: torch.Tensor) -> None:
            assert parameter.grad is not None
            early.append(is_on_its_way(optimizer, parameter))  # noqa: B023 - called within the loop
            parameter.grad.mul_(0.5)

        for parameter in parameters:
            add_hook(parameter, halve)
        for _ in range(3):
            optimizer.zero_grad()
            run_backward(sum(each.sum() * mine() for each in parameters))
            optimizer.synchronize()
            for parameter in parameters:
                assert parameter.grad is not None
                assert parameter.grad.tolist() == [mean() / 2] * 3
            with optimizer.skip_synchronize():
                optimizer.step()
        assert early == [False] * 6, options


def check_compiled_backward_passes_call_hooks_in_the_same_order() -> None:
    if not HOOKS:
        return
    config: Any = torch._dynamo.config

    def clamp(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.clamp_(-1.5, 1.5)

    for compiled_autograd in (False, True) if hasattr(config, "compiled_autograd") else (False,):
        parameters = two_parameters()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0))
        for parameter in parameters:
            add_hook(parameter, clamp)

        def step() -> None:
            optimizer.zero_grad()  # noqa: B023 - called within the loop
            run_backward(sum(each.sum() * mine() for each in parameters))  # noqa: B023 - as above
            optimizer.step()  # noqa: B023 - as above

        compiled: Callable[[], None] = torch.compile(step, backend="eager")
        with config.patch({"compiled_autograd": True} if compiled_autograd else {}):
            for _ in range(2):
                compiled()
        clamped = sum(min(rank + 1.0, 1.5) for rank in range(hvd.size())) / hvd.size()
        for parameter in parameters:
            torch.testing.assert_close(parameter.detach(), torch.full((3,), 1 - 2 * clamped))


def steps_in_hooks(options: Options, zero: Callable[[Any], None], *, wrapped_first: bool) -> None:
    """Each parameter has an optimizer, whose step its hook makes.

    Args:
        options: of the optimizers.
        zero: called with the optimizer after its step.
        wrapped_first: whether optimizers are wrapped before hooks are registered.
    """
    parameters = two_parameters()
    optimizers: dict[torch.Tensor, Any] = {}

    def make_step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        zero(optimizers[parameter])

    def register() -> None:
        for parameter in parameters:
            add_hook(parameter, make_step)

    if not wrapped_first:
        register()
    for index, parameter in enumerate(parameters):
        optimizers[parameter] = hvd.DistributedOptimizer(
            torch.optim.SGD([parameter], lr=1.0), [(f"{index}", parameter)], **options
        )
    if wrapped_first:
        register()
    for _ in range(3):
        run_backward(sum(each.sum() * mine() for each in parameters))
        assert not any(is_on_its_way(optimizers[each], each) for each in parameters)
        for optimizer in optimizers.values():
            optimizer.zero_grad()
    for parameter in parameters:
        assert parameter.tolist() == [1 - 3 * mean()] * 3, (options, wrapped_first)


def check_hooks_may_make_the_steps_of_each_parameter() -> None:
    if not HOOKS:
        return
    for options in PLACES:
        for wrapped_first in (False, True):
            for zero in (
                lambda optimizer: optimizer.zero_grad(),
                lambda optimizer: optimizer.zero_grad(set_to_none=False),
                lambda _: None,
            ):
                steps_in_hooks(options, zero, wrapped_first=wrapped_first)


def check_hooks_may_make_the_steps_of_several_passes() -> None:
    if not HOOKS:
        return
    for options in PLACES:
        parameter = torch.nn.Parameter(torch.zeros(3))
        plain = torch.optim.SGD([parameter], lr=1.0)
        optimizer: Any = hvd.DistributedOptimizer(plain, backward_passes_per_step=2, **options)
        passes: list[int] = []

        def step(_: torch.Tensor, optimizer: Any = optimizer, passes: list[int] = passes) -> None:
            passes.append(1)
            if len(passes) % 2 == 0:
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)

        add_hook(parameter, step)
        for number in range(1, 5):
            for factor in (1.0, 3.0):
                run_backward(parameter.sum() * mine() * factor)
            assert parameter.tolist() == [-4 * mean() * number] * 3, options


def check_hooks_may_make_steps_of_adasum() -> None:
    if not HOOKS or hvd.size().bit_count() != 1:
        return
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), op=hvd.Adasum)
    add_hook(parameter, lambda _: optimizer.step())
    for _ in range(2):
        run_backward(parameter.sum())
        optimizer.zero_grad()  # nothing has been counted since the step
    assert parameter.tolist() == [-1.0] * 3


def converted_gradients(options: Options, convert: Callable[[torch.nn.Module], Any]) -> None:
    """Gradients after a conversion are those of all ranks, and soon they are sent early again."""
    layer = torch.nn.Linear(3, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(layer.parameters(), lr=0.0), layer.named_parameters(), **options
    )
    if not options.get("gradient_as_bucket_view"):
        optimizer._requires_update = set()  # those without a gradient are left alone
    early = []
    for step in range(4):
        if step == 1:
            for parameter in layer.parameters():
                parameter.grad = None
            convert(layer)
        optimizer.zero_grad()
        run_backward(layer(torch.full((1, 3), mine(), dtype=layer.weight.dtype)).sum())
        early.append(is_on_its_way(optimizer, layer.weight))
        optimizer.step()
        assert layer.weight.grad is not None
        assert layer.weight.grad.tolist() == [[mean()] * 3]
    assert early[-1], (options, early)


def check_gradients_of_converted_models_are_followed() -> None:
    for options in PLACES:
        converted_gradients(options, lambda layer: layer.double())


def check_gradients_of_swapped_parameters_are_followed() -> None:
    future: Any = torch.__future__
    if not hasattr(future, "set_swap_module_params_on_conversion"):
        return
    future.set_swap_module_params_on_conversion(True)
    try:
        for options in PLACES:
            converted_gradients(options, lambda layer: layer.double())
    finally:
        future.set_swap_module_params_on_conversion(False)


@torch.no_grad()
def check_optimizers_may_be_wrapped_where_nothing_is_differentiated() -> None:
    parameters = two_parameters()
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(parameters[:1], lr=1.0))]
    with torch.inference_mode():
        optimizers.append(hvd.DistributedOptimizer(torch.optim.SGD(parameters[1:], lr=1.0)))
    for parameter, optimizer in zip(parameters, optimizers, strict=True):
        with torch.enable_grad():
            run_backward(parameter.sum() * mine())
        assert is_on_its_way(optimizer, parameter)
        with pytest.raises(AssertionError, match="zero_grad"):
            optimizer.zero_grad()
        optimizer.step()
        assert parameter.tolist() == [1 - mean()] * 3


def check_sparse_parameters_are_followed() -> None:
    parameter = torch.nn.Parameter(torch.eye(3).to_sparse())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    run_backward(torch.sparse.sum(parameter) * mine())
    assert is_on_its_way(optimizer, parameter)
    optimizer.synchronize()
    assert parameter.grad is not None
    assert parameter.grad.to_dense().diagonal().tolist() == [mean()] * 3
