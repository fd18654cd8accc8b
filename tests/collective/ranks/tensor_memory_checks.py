"""Tensors in whose memory there is no place for a result, or no value."""

import itertools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import horovod.torch as hvd
from horovod.torch.operands import repeats_elements


class Referring(torch.Tensor):
    """Refers to another tensor that has the elements, as a DTensor does."""

    elements: torch.Tensor

    @classmethod
    def referring_to(cls, elements: torch.Tensor) -> Any:
        made: Any = torch.Tensor._make_wrapper_subclass(
            cls, elements.shape, dtype=elements.dtype, device=elements.device
        )
        made.elements = elements
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types

        def unwrapped(value: Any) -> Any:
            return value.elements if isinstance(value, cls) else value

        result = func(*map(unwrapped, args), **(kwargs or {}))
        return cls.referring_to(result) if isinstance(result, torch.Tensor) else result


OPERATIONS: Sequence[Callable[[Any], Any]] = (
    hvd.allreduce,
    hvd.allreduce_,
    lambda tensor: hvd.synchronize(hvd.allreduce_async_(tensor)),
    lambda tensor: hvd.grouped_allreduce([tensor, tensor]),
    lambda tensor: hvd.broadcast_(tensor, 0),
    lambda tensor: hvd.broadcast_parameters({"tensor": tensor}, 0),
    hvd.allgather,
    hvd.alltoall,
    hvd.reducescatter,
)


def check_tensors_that_refer_to_others_are_refused() -> None:
    for operation in OPERATIONS:
        with pytest.raises(ValueError, match=r"Referring has no memory of its own.*to_local\(\)"):
            operation(Referring.referring_to(torch.ones(hvd.size())))
    assert hvd.allreduce(torch.nn.Parameter(torch.ones(0))).numel() == 0
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2


def check_tensors_of_tracers_and_transforms_are_refused_in_words() -> None:
    transformed = r"neither transformed by torch\.func .* nor traced .* outside of it"
    for operation in OPERATIONS:
        with warnings.catch_warnings(), FakeTensorMode():
            warnings.simplefilter("error")
            fake = torch.ones(hvd.size())
            with pytest.raises(ValueError, match=f"FakeTensor has no memory here.*{transformed}"):
                operation(fake)
        with pytest.raises(ValueError, match=f"Tensor has no memory here.*{transformed}"):
            torch.func.vmap(operation)(torch.ones(2, hvd.size()))

    def reduced(tensor: torch.Tensor) -> torch.Tensor:
        return hvd.allreduce(tensor).sum()

    ones = torch.ones(2)
    transforms: Any = (
        lambda: torch.func.grad(reduced)(ones),
        lambda: torch.func.jacrev(reduced)(ones),
        lambda: torch.func.jvp(reduced, (ones,), (ones,)),
    )
    for transform in transforms:
        with pytest.raises(NotImplementedError, match=transformed):
            transform()
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2


def check_expanded_tensors_take_no_results() -> None:
    operations: Sequence[Callable[[torch.Tensor], Any]] = (
        hvd.allreduce_,
        lambda tensor: hvd.synchronize(hvd.allreduce_async_(tensor)),
        lambda tensor: hvd.grouped_allreduce_([torch.ones(2), tensor]),
        lambda tensor: hvd.broadcast_(tensor, 0),
        lambda tensor: hvd.broadcast_parameters({"tensor": tensor}, 0),
    )
    for operation in operations:
        tensor = torch.full((1,), hvd.rank() + 1.0)
        with pytest.raises(ValueError, match=r"shape \[2, 3\] and strides \(0, 0\) is expanded"):
            operation(tensor.expand(2, 3))
        assert tensor.item() == hvd.rank() + 1.0
    expanded = torch.ones(1).expand(2, 3)
    assert hvd.allreduce(expanded, op=hvd.Sum).tolist() == [[hvd.size()] * 3] * 2
    assert hvd.allreduce_(torch.ones(1, 3).expand(1, 3)).tolist() == [[1.0] * 3]


def check_views_are_refused_where_elements_are_one_in_memory_and_nowhere_else() -> None:
    memory = torch.zeros(64)
    for shape in itertools.product(range(4), repeat=2):
        for strides in itertools.product(range(5), repeat=2):
            view = memory.as_strided(shape, strides)
            steps = itertools.product(*map(range, shape))
            places = [sum(map(operator.mul, step, strides)) for step in steps]
            assert repeats_elements(view) == (len(set(places)) < len(places)), (shape, strides)
    view = memory.as_strided((3, 2), (2, 3)).fill_(hvd.rank() + 1.0)
    hvd.allreduce_(view, op=hvd.Sum)
    assert view.tolist() == [[hvd.size() * (hvd.size() + 1) / 2] * 2] * 3
    many = torch.zeros(20_004).as_strided((10_001, 2), (2, 3))
    assert repeats_elements(many)  # it takes too long to find out that they are not


def check_tensors_behind_a_header_of_odd_length() -> None:
    """As `torch.frombuffer` makes them of a message; they are not aligned for their type."""

    def mine() -> torch.Tensor:
        memory = bytearray(b"h") + bytes(4 * 6)
        return torch.frombuffer(memory, dtype=torch.float32, offset=1).fill_(hvd.rank() + 1.0)

    total = float(sum(range(1, hvd.size() + 1)))
    assert mine().data_ptr() % 4
    for found in (
        hvd.allreduce(mine(), op=hvd.Sum),
        hvd.allreduce_(mine(), op=hvd.Sum),
        hvd.synchronize(hvd.allreduce_async_(mine(), op=hvd.Sum)),
        *hvd.grouped_allreduce_([mine(), mine()], op=hvd.Sum),
        hvd.allreduce(mine(), op=hvd.Sum, compression=hvd.Compression.fp16),
    ):
        assert found.tolist() == [total] * 6
    assert hvd.broadcast_(mine(), root_rank=0).tolist() == [1.0] * 6
    rows = [float(rank + 1) for rank in range(hvd.size()) for _ in range(6)]
    assert hvd.allgather(mine()).tolist() == rows
    everyones = torch.frombuffer(bytearray(4 * len(rows) + 1), dtype=torch.float32, offset=1)
    assert hvd.allgather(mine(), output=everyones) is everyones
    assert everyones.tolist() == rows
    if 6 % hvd.size() == 0:
        output = mine()
        hvd.alltoall(mine(), output=output)
        assert output.tolist() == sorted(rows[:: hvd.size()])
    every_third = mine()[::3]
    hvd.allreduce_(every_third, op=hvd.Sum)
    assert every_third.tolist() == [total] * 2
    parameter = torch.nn.Parameter(mine())
    hvd.broadcast_parameters({"behind": parameter}, root_rank=0)
    assert parameter.tolist() == [1.0] * 6
