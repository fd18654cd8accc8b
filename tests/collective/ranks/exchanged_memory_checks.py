"""Tensors that are given other memory (`t.data = ...`) while an operation uses what they had."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.default_device import with_buckets

LENGTH = 3000  # elements; not of the few bytes that travel with the announcement


def while_it_is_under_way(start: Callable[[], int], exchange: Callable[[], object]) -> Any:
    """Rank 0 alone has started when it makes the exchange; returns what all have waited for."""
    handle = None
    if hvd.rank() == 0:
        handle = start()
        exchange()
    hvd.broadcast(torch.ones(1), 0, name="exchanged")
    return hvd.synchronize(start() if handle is None else handle)


def check_the_result_is_put_into_what_the_tensor_has_now() -> None:
    total = float(sum(range(1, hvd.size() + 1)))
    starts: tuple[tuple[Callable[[torch.Tensor], int], float], ...] = (
        (lambda tensor: hvd.allreduce_async_(tensor, op=hvd.Sum), total),
        (lambda tensor: hvd.grouped_allreduce_async_([tensor, tensor.clone()], op=hvd.Sum), total),
        (lambda tensor: hvd.broadcast_async_(tensor, 1), 2.0),
        (lambda tensor: hvd.allreduce_async_(tensor[::2], op=hvd.Sum), total),
    )
    for start, expected in starts:
        tensor = torch.full((LENGTH,), hvd.rank() + 1.0)
        address = tensor.data_ptr()
        others: list[torch.Tensor] = []

        def exchange(tensor: torch.Tensor = tensor, others: list[torch.Tensor] = others) -> None:
            tensor.data = torch.zeros(LENGTH)
            # They would get the memory that the tensor has left, if nothing had kept it.
            others.extend(torch.zeros(LENGTH) for _ in range(20))

        result = while_it_is_under_way(lambda: start(tensor), exchange)  # noqa: B023 - run here
        first = result[0] if isinstance(result, (list, tuple)) else result
        assert first.tolist() == [expected] * first.numel()
        assert address not in [each.data_ptr() for each in others]
        assert all(not each.any() for each in others)
        if first.numel() == LENGTH:
            assert tensor.tolist() == [expected] * LENGTH


def check_operations_that_make_results_read_what_they_were_started_with() -> None:
    sent = torch.full((LENGTH,), hvd.rank() + 1.0)

    def exchange() -> None:
        sent.data = torch.zeros(LENGTH)

    gathered = while_it_is_under_way(lambda: hvd.allgather_async(sent), exchange)
    assert gathered[:LENGTH].tolist() == [1.0] * LENGTH


def check_a_result_goes_into_the_memory_that_the_output_has_now() -> None:
    output = torch.zeros(LENGTH * hvd.size())
    sent = torch.full((LENGTH,), hvd.rank() + 1.0)

    def exchange() -> None:
        output.data = torch.zeros(LENGTH * hvd.size())

    def start() -> int:
        return hvd.allgather_async(sent, output=output)

    assert while_it_is_under_way(start, exchange) is output
    assert output[:LENGTH].tolist() == [1.0] * LENGTH


def check_a_tensor_of_another_shape_loses_its_result() -> None:
    for size in (0, 1, LENGTH - 1):
        group = [torch.full((LENGTH,), 1.0) for _ in range(3)]
        kept = group[1].detach()

        def exchange(group: list[torch.Tensor] = group, size: int = size) -> None:
            group[1].data = torch.zeros(size)
            group[2].data = torch.zeros(LENGTH)

        def start(group: list[torch.Tensor] = group) -> int:
            return hvd.grouped_allreduce_async_(group, op=hvd.Sum)

        if hvd.rank() == 0:
            with pytest.raises(RuntimeError, match=rf"memory of shape \[{size}\] .* \[{LENGTH}\]"):
                while_it_is_under_way(start, exchange)
            assert not group[1].any()
        else:
            while_it_is_under_way(start, exchange)
        for each in (group[0], kept, group[2]):
            assert each.tolist() == [hvd.size()] * LENGTH


def check_a_tensor_that_becomes_a_part_of_itself_has_its_result() -> None:
    whole = torch.full((2, LENGTH), 1.0)
    tensor = whole[:, :]

    def exchange() -> None:
        tensor.data = tensor.data[1:]

    result = while_it_is_under_way(lambda: hvd.allreduce_async_(tensor, op=hvd.Sum), exchange)
    assert result is tensor
    assert whole.tolist() == [[hvd.size()] * LENGTH] * 2


def check_a_tensor_that_moves_within_its_memory_is_given_its_result() -> None:
    base = torch.full((LENGTH + 1,), 1.0)
    tensor = base[:-1]

    def exchange() -> None:
        tensor.data = base[1:]

    while_it_is_under_way(lambda: hvd.allreduce_async_(tensor, op=hvd.Sum), exchange)
    assert tensor.tolist() == [hvd.size()] * LENGTH


def check_gradients_that_are_clamped_before_the_step_are_reduced() -> None:
    kinds = with_buckets({}, {"groups": 1}, {"compression": hvd.Compression.fp16})

    def exchanged(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.data = parameter.grad.data.clamp(-10, 10)

    def replaced(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad = parameter.grad.clamp(-10, 10)

    average = (hvd.size() + 1) / 2
    for options in kinds:
        for change in (exchanged, replaced):
            layer = torch.nn.Linear(4, 3, bias=False)
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters(), **options
            )
            for _ in range(3):
                optimizer.zero_grad()
                run_backward(layer(torch.ones(1, 4) * (hvd.rank() + 1)).sum())
                change(layer.weight)
                optimizer.step()
                assert layer.weight.grad is not None
                assert layer.weight.grad.tolist() == [[average] * 4] * 3, (options, change)
