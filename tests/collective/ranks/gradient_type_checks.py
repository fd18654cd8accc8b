"""Gradients of another type than their parameters, which newer PyTorch knows (`grad_dtype`)."""

from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.default_device import with_buckets

KNOWN = hasattr(torch.Tensor, "grad_dtype")


class _Times(torch.autograd.Function):
    """Multiplies in float32, of which its gradients are then."""

    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return parameter.float() * factor

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * ctx.factor, None


times: Any = _Times.apply


def narrow(module: Any) -> Any:
    """Has a module's parameters in bfloat16, and their gradients in float32."""
    module.to(torch.bfloat16)
    for parameter in module.parameters():
        with torch.no_grad():
            parameter.fill_(1.0)
        parameter.grad_dtype = torch.float32
    return module


def plain_steps(parameters: Any) -> torch.optim.Optimizer:
    """One that takes such gradients."""
    return torch.optim.SGD(parameters, lr=1.0, foreach=False)


def expect(gradient: torch.Tensor | None, value: float) -> None:
    assert gradient is not None
    assert gradient.dtype == torch.float32
    torch.testing.assert_close(gradient, torch.full_like(gradient, value))


def check_gradients_that_only_some_parameters_or_ranks_have() -> None:
    if not KNOWN:
        return
    # Not in bfloat16, which has 8 bits.
    values = [1 + rank * 2.0**-10 for rank in range(hvd.size())]
    for options in with_buckets({}, {"groups": 1}):
        layer = narrow(torch.nn.Linear(2, 2))
        optimizer = hvd.DistributedOptimizer(
            plain_steps(layer.parameters()), layer.named_parameters(), **options
        )
        for _ in range(2):
            optimizer.zero_grad()
            run_backward(times(layer.weight, values[hvd.rank()]).sum())
            optimizer.synchronize()
            expect(layer.weight.grad, sum(values) / hvd.size())
            expect(layer.bias.grad, 0.0)
        optimizer.zero_grad()
        if hvd.rank() == 0:
            run_backward(times(layer.bias, 1.0).sum())
        optimizer.synchronize()
        expect(layer.weight.grad, 0.0)
        expect(layer.bias.grad, 1 / hvd.size())


def check_sparse_gradients_that_some_ranks_lack() -> None:
    if not KNOWN:
        return
    table = narrow(torch.nn.Embedding(3, 2, sparse=True))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.0), op=hvd.Sum)
    for step in range(2):
        optimizer.zero_grad()
        if hvd.rank() == 0 or step == 0:
            run_backward(table(torch.tensor([1])).sum())
        optimizer.synchronize()
        assert table.weight.grad.dtype == torch.float32
        rows = table.weight.grad.to_dense().tolist()
        assert rows == [[0.0] * 2, [float(1 if step else hvd.size())] * 2, [0.0] * 2]


def check_gradients_of_zeros_for_a_state_that_is_broadcast() -> None:
    if not KNOWN:
        return
    layer = narrow(torch.nn.Linear(2, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(layer.parameters()))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    expect(layer.weight.grad, 0.0)
    layer.weight.grad = None
    handle, _ = optimizer._allreduce_grad_async(layer.weight)
    hvd.synchronize(handle)
    expect(layer.weight.grad, 0.0)


def check_buckets_of_ranks_whose_gradients_are_of_unlike_types_are_refused() -> None:
    if not KNOWN:
        return
    layer = narrow(torch.nn.Linear(2, 2))
    if hvd.rank() == 0:
        layer.bias.grad_dtype = torch.bfloat16
    optimizer = hvd.DistributedOptimizer(
        plain_steps(layer.parameters()), layer.named_parameters(), gradient_as_bucket_view=True
    )
    with pytest.raises(ValueError, match="types on all ranks, but they differ"):
        optimizer.synchronize()
