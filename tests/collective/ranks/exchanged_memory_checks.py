"""Tensors that are given other memory (`t.data = ...`) while an operation uses what they had."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

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


class ExchangedAsCopied(TorchFunctionMode):
    """Within it, a tensor is given other memory each time that PyTorch begins to copy.

    That is where it lets other threads run.

    Args:
        tensor: of the memory of an array.
        memory: the array.
        others: what it is given, one after the other.

    Attributes:
        lasted: whether something has kept the array's memory in the first copy.
    """

    def __init__(
        self, tensor: torch.Tensor, memory: weakref.ref[Any], others: list[torch.Tensor]
    ) -> None:
        super().__init__()
        self._tensor, self._memory, self._others = tensor, memory, others
        self.lasted: bool | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.copy_ and self._others:
            self._tensor.data = self._others.pop()
            if self.lasted is None:
                self.lasted = self._memory() is not None
        return func(*args, **(kwargs or {}))


def check_the_memory_that_a_result_is_copied_to_lasts() -> None:
    size = hvd.size()
    sent = torch.full((LENGTH * size,), 1.0)
    fp16 = hvd.Compression.fp16
    calls: tuple[Callable[[torch.Tensor], Any], ...] = (
        lambda tensor: hvd.allreduce_(tensor, op=hvd.Sum),
        lambda tensor: hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum)),
        lambda tensor: hvd.grouped_allreduce_([tensor, sent.clone()], op=hvd.Sum),
        lambda tensor: hvd.reducescatter(sent, op=hvd.Sum, compression=fp16, output=tensor),
    )
    for number, call in enumerate(calls):
        for times in (0, 1, 2):
            array = np.ones((LENGTH, 2), np.float32)[:, 0]
            tensor = torch.from_numpy(array)  # not contiguous, and so copied
            memory = weakref.ref(array)
            version = tensor._version
            others = [torch.zeros(LENGTH) for _ in range(times)]
            with ExchangedAsCopied(tensor, memory, others) as exchanged:
                del array
                call(tensor)
            assert exchanged.lasted is (True if times else None), (number, times)
            assert tensor.tolist() == [size] * LENGTH, (number, times)
            # What autograd compares, and the optimizer.
            assert tensor._version > version, (number, times)
            assert not times or memory() is None, (number, times)


class ExchangedAsUsed(TorchFunctionMode):
    """Within it, a tensor has other memory after everything that PyTorch is asked about it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self._tensor = tensor

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if args and args[0] is self._tensor:
            self._tensor.data = torch.zeros(self._tensor.shape)
        return result


def check_an_output_that_is_exchanged_as_an_operation_starts_is_contiguous() -> None:
    output = torch.zeros(LENGTH * hvd.size())
    with ExchangedAsUsed(output):
        handle = hvd.allgather_async(torch.full((LENGTH,), hvd.rank() + 1.0), output=output)
    assert hvd.synchronize(handle) is output
    assert output[:LENGTH].tolist() == [1.0] * LENGTH
    assert output[LENGTH : 2 * LENGTH].tolist() == [2.0] * LENGTH
