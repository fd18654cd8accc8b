"""Numbers that collectives give on a GPU, compared with those of the CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.compared_results import FLOATS, INTEGERS, same
from collective.ranks.gpu_of_rank import has_gpus, place

OPS = (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product)


def check_reductions_give_the_cpus_numbers() -> None:
    # Of sums and products that are exact, whatever the order.
    some = torch.tensor([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]).repeat(200).roll(hvd.rank())
    whole = torch.tensor([-2, -1, 1, 2, 3, 0]).repeat(200).roll(hvd.rank())
    tensors = [some.to(dtype) for dtype in FLOATS] + [whole.to(dtype) for dtype in INTEGERS]
    for op in OPS:
        for before, after in ((1.0, 1.0), (0.5, 3.0), (-2.0, 1.0 / 3.0)):
            how: Any = {"op": op, "prescale_factor": before, "postscale_factor": after}
            expected = hvd.grouped_allreduce(tensors, **how)
            mine = [tensor.to(place()) for tensor in tensors]
            for found, wanted in zip(hvd.grouped_allreduce(mine, **how), expected, strict=True):
                assert same(found, wanted), ("group", wanted.dtype, op, before, after)
            for tensor, wanted in zip(mine, expected, strict=True):
                found = hvd.allreduce(tensor, **how)
                assert same(found, wanted), ("alone", wanted.dtype, op, before, after)


def check_booleans_are_reduced_and_moved() -> None:
    mine = torch.tensor([True, False, hvd.rank() == 0, hvd.rank() != 0])
    for op in (hvd.Sum, hvd.Min, hvd.Max, hvd.Product):
        expected = hvd.allreduce(mine, op=op)
        assert same(hvd.allreduce(mine.to(place()), op=op), expected), op
        group = hvd.grouped_allreduce([mine.to(place()), mine[1:].to(place())], op=op)
        assert same(group[0], expected), op
        assert same(group[1], expected[1:]), op
    with pytest.raises(ValueError, match="Average does not exist for bool"):
        hvd.allreduce(mine.to(place()), op=hvd.Average)
    rows = mine.repeat(hvd.size(), 1)
    calls: list[Callable[[torch.Tensor], torch.Tensor]] = [
        hvd.allgather,
        hvd.alltoall,
        lambda t: hvd.broadcast(t, 0),
        lambda t: hvd.reducescatter(t, op=hvd.Max),
    ]
    for number, call in enumerate(calls):
        assert same(call(rows.to(place())), call(rows)), number


def check_integers_give_the_cpus_values() -> None:
    for dtype in INTEGERS:
        ends = torch.iinfo(dtype)
        mine = torch.tensor([ends.max, ends.min, ends.max - hvd.rank(), 1, 7], dtype=dtype)
        for op in (hvd.Sum, hvd.Average, hvd.Min, hvd.Max):
            for before, after in ((1.0, 1.0), (1.0, 1e30), (0.3, 0.7), (-1.0, 1.0)):
                how: Any = {"op": op, "prescale_factor": before, "postscale_factor": after}
                expected = hvd.allreduce(mine, **how)
                found = hvd.allreduce(mine.to(place()), **how)
                assert same(found, expected), (dtype, op, before, after, found, expected)


def check_small_infinite_and_undefined_numbers_are_those_of_the_cpu() -> None:
    wrong = []
    for dtype in FLOATS:
        tiny = torch.finfo(dtype).tiny
        values = [tiny / 2, -tiny / 4, tiny, 0.0, -0.0, float("inf"), float("-inf"), float("nan")]
        mine = torch.tensor(values, dtype=dtype)
        if hvd.rank() == 1:
            mine = mine.roll(3)
        if hvd.rank() > 1:
            mine.zero_()
        for op in OPS:
            # Of NaN and a number, NCCL takes the number as the least and the greatest.
            undefined = op not in (hvd.Min, hvd.Max) or not has_gpus()
            given = mine if undefined else mine.where(~mine.isnan(), 3.0)
            for after in (1.0, 0.5):
                how: Any = {"op": op, "postscale_factor": after}
                expected = hvd.allreduce(given, **how)
                found = hvd.allreduce(given.to(place()), **how)
                if not same(found, expected):
                    wrong.append((dtype, how, found.tolist(), expected.tolist()))
    assert not wrong, wrong


def check_adaptive_sums_are_those_of_the_cpu() -> None:
    if hvd.size() & (hvd.size() - 1):
        return
    torch.manual_seed(hvd.rank())
    for dtype, near in zip(FLOATS, (1e-2, 5e-2, 1e-4, 1e-9), strict=True):
        parts = [torch.randn(shape).to(dtype) for shape in ((), (0,), (1000,), (30, 7))]
        how: Any = {"op": hvd.Adasum, "prescale_factor": 0.5, "postscale_factor": 2.0}
        expected = hvd.grouped_allreduce(parts, **how)
        mine = [part.to(place()) for part in parts]
        found = hvd.grouped_allreduce(mine, **how)
        alone = [hvd.allreduce(part, **how) for part in mine]
        turned = mine[3].t().contiguous().t()
        hvd.allreduce_(turned, **how)
        hvd.grouped_allreduce_(mine, **how)
        for results in (found, alone, mine, [*expected[:3], turned]):
            for one, other in zip(results, expected, strict=True):
                assert one.shape == other.shape
                assert one.dtype == dtype
                assert torch.allclose(one.cpu(), other.cpu(), rtol=near, atol=near), dtype


def check_gradients_of_collectives_are_the_cpus() -> None:
    size, me = hvd.size(), hvd.rank()
    calls: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda t: hvd.allreduce(t, op=hvd.Sum),
        lambda t: hvd.allreduce(t, compression=hvd.Compression.fp16),
        lambda t: hvd.allgather(t[: me + 1]),
        lambda t: hvd.broadcast(t, size - 1),
        lambda t: hvd.reducescatter(t, op=hvd.Sum),
        lambda t: hvd.alltoall(t, [1] * size)[0],
        lambda t: torch.cat([e.flatten() for e in hvd.grouped_allreduce([t, t[:1]])]),
        lambda t: torch.cat([e.flatten() for e in hvd.grouped_allgather([t, t[:1]])]),
        lambda t: torch.cat([e.flatten() for e in hvd.grouped_reducescatter([t, t * 2])]),
    ]
    for number, call in enumerate(calls):
        found = []
        for device in (torch.device("cpu"), place()):
            made = torch.arange(float(2 * size * 3)).reshape(2 * size, 3) / 4 + me
            leaf = made.to(device).requires_grad_()
            weighed = call(leaf)
            weights = torch.arange(float(weighed.numel()), device=device).reshape(weighed.shape)
            (weighed * (weights % 4)).sum().backward()  # type: ignore[no-untyped-call]
            assert leaf.grad is not None
            assert leaf.grad.device == device
            found += [(weighed.detach(), leaf.grad)]
        assert same(found[1][0], found[0][0]), number
        assert same(found[1][1], found[0][1]), number
