"""Compression on the way gives the bits of compressing by PyTorch, reducing and decompressing."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.torch.compression import BF16Compressor, FP16Compressor


class FP16ByPyTorch(FP16Compressor):
    """A user's class: its tensors are converted by its own methods."""


class BF16ByPyTorch(BF16Compressor):
    """The same for bfloat16."""


PAIRS = ((hvd.Compression.fp16, FP16ByPyTorch), (hvd.Compression.bf16, BF16ByPyTorch))
SIZES = (0, 1, 77, 3000, 70_001)
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def numbers(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of all sizes, other ones on each rank, with NaNs, infinities and what becomes one."""
    generator = torch.Generator().manual_seed(count * 10 + hvd.rank())
    exponents = torch.randint(-26, 18, (count,), generator=generator)
    values = torch.ldexp(torch.rand(count, generator=generator, dtype=dtype) * 4 - 2, exponents)
    values[3::97] = torch.nan
    values[5::89] = torch.inf
    return values


def require_same_bits(found: torch.Tensor, expected: torch.Tensor, case: Any = None) -> None:
    """NaNs have to be at the same places; which ones they are is PyTorch's choice."""
    assert found.dtype == expected.dtype, case
    assert found.shape == expected.shape, case
    if found.dtype not in BITS:
        assert torch.equal(found, expected), case
        return
    assert torch.equal(found.isnan(), expected.isnan()), case
    bits = BITS[found.dtype]
    same = found.contiguous().view(bits) == expected.contiguous().view(bits)
    assert bool((same | found.isnan()).all()), case


def rounds_alike(ours: Any, dtype: torch.dtype) -> bool:
    """Whether PyTorch makes float16 of float64 by way of float32, as not all of its builds do."""
    twice = torch.tensor(1 + 2.0**-11 + 2.0**-40, dtype=torch.float64)
    return ours is not FP16Compressor or dtype != torch.float64 or twice.half().item() == 1


def check_one_tensor() -> None:
    ways: Sequence[dict[str, Any]] = (
        {},
        {"op": hvd.Sum, "prescale_factor": 0.3, "postscale_factor": 7.0},
        {"op": hvd.Min},
        {"op": hvd.Product},
    )
    for ours, by_pytorch in PAIRS:
        for count in SIZES:
            for dtype in (torch.float32, torch.float64):
                if not rounds_alike(ours, dtype):
                    continue
                mine = numbers(count, dtype)
                before = mine.clone()
                for way in ways:
                    expected = hvd.allreduce(mine, compression=by_pytorch, **way)
                    found = hvd.allreduce(mine, compression=ours, **way)
                    require_same_bits(found, expected, (ours, count, dtype, way))
                    require_same_bits(mine, before)


def check_other_types_and_layouts() -> None:
    for ours, by_pytorch in PAIRS:
        for mine in (
            numbers(50).to(torch.float16).nan_to_num(),
            numbers(50).to(torch.bfloat16).nan_to_num(),
            torch.arange(6),
            torch.tensor([True, False]),
            numbers(60).reshape(6, 10).t(),
            numbers(40)[::3],
            numbers(1).reshape(()),
        ):
            expected = hvd.allreduce(mine, op=hvd.Sum, compression=by_pytorch)
            found = hvd.allreduce(mine, op=hvd.Sum, compression=ours)
            require_same_bits(found, expected, (ours, mine.dtype, mine.shape))
        with pytest.raises(ValueError, match="layout"):
            hvd.allreduce(torch.eye(2).to_sparse(), compression=ours)


def check_groups() -> None:
    for ours, by_pytorch in PAIRS:
        mine = [
            numbers(1000),
            numbers(30, torch.float64),
            torch.arange(5),
            numbers(70_001),
            numbers(9).half().nan_to_num(),
        ]
        expected = hvd.grouped_allreduce(mine, op=hvd.Sum, compression=by_pytorch)
        found = hvd.grouped_allreduce(mine, op=hvd.Sum, compression=ours)
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            require_same_bits(one, other, (ours, index))


def check_gradients_travel_alike() -> None:
    for ours, by_pytorch in PAIRS:
        results = []
        for compression in (ours, by_pytorch):
            mine = numbers(500).nan_to_num().requires_grad_()
            also = numbers(20, torch.float64).nan_to_num().requires_grad_()
            reduced = hvd.allreduce(mine, compression=compression, prescale_factor=0.1)
            together = hvd.grouped_allreduce([mine, also], compression=compression)
            run_backward((reduced * 1.2345).sum())
            run_backward((together[0] * 0.777).sum() + (together[1] * 1e5).sum())
            results.append((reduced.detach(), mine.grad, also.grad))
        for found, expected in zip(*results, strict=True):
            assert found is not None
            assert expected is not None
            require_same_bits(found, expected, ours)


class Model(torch.nn.Module):
    """Dense parameters of two types, and an embedding with sparse gradients.

    Few enough that all ranks sum them in one order, whichever of them travel together.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(10, 6, sparse=True)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 50), torch.nn.Tanh(), torch.nn.Linear(50, 90)
        )
        self.last = torch.nn.Linear(90, 1).double()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layers(self.words(words))
        result: torch.Tensor = self.last(hidden.double())
        return result


def trained(compression: Any, **options: Any) -> list[torch.Tensor]:
    torch.manual_seed(3)
    model = Model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05),
        named_parameters=model.named_parameters(),
        compression=compression,
        **options,
    )
    torch.manual_seed(hvd.rank())
    for _ in range(3):
        words = torch.randint(10, (8,))
        optimizer.zero_grad()
        run_backward((model(words) - words[:, None]).square().mean())
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def check_optimizers_train_alike() -> None:
    for ours, by_pytorch in PAIRS:
        for options in (
            {},
            {"groups": 2},
            {"gradient_predivide_factor": 3.0},
            {"sparse_as_dense": True},
        ):
            found = trained(ours, **options)
            expected = trained(by_pytorch, **options)
            for one, other in zip(found, expected, strict=True):
                require_same_bits(one, other, (ours, options))


def check_the_core_converts() -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("converted by PyTorch")

    with pytest.MonkeyPatch.context() as patch:
        for ours, _ in PAIRS:
            patch.setattr(ours, "compress", fail)
            mine = numbers(3000)
            hvd.allreduce(mine, compression=ours)
            hvd.grouped_allreduce([mine, mine.double()], compression=ours)
            trained(ours)
            trained(ours, groups=2)


def check_own_compressors_are_called() -> None:
    calls = []

    class Counting(FP16Compressor):
        @classmethod
        def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
            calls.append("compress")
            return super().compress(tensor)

        @staticmethod
        def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
            calls.append("decompress")
            return FP16Compressor.decompress(tensor, ctx)

    result = hvd.allreduce(torch.full((3,), 0.1), op=hvd.Max, compression=Counting)
    assert calls == ["compress", "decompress"]
    assert result[0] == torch.tensor(0.1).half().float()
    compressed, context = hvd.Compression.bf16.compress(torch.ones(2))
    assert (compressed.dtype, context) == (torch.bfloat16, torch.float32)
    assert hvd.Compression.bf16.decompress(compressed, context).dtype == torch.float32
    whole = torch.tensor([2**24 + 1])
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        compressed, context = compression.compress(whole)
        assert compressed is whole
        assert context == torch.int64
        assert compression.decompress(compressed, context) is whole


def check_what_cannot_compress_is_refused_at_once() -> None:
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    given: Any
    for given in (5, None, "fp16", hvd.Compression):
        with pytest.raises(ValueError, match="must have the functions compress and decompress"):
            hvd.DistributedOptimizer(optimizer, compression=given)
    given = FP16ByPyTorch()  # an instance has them too
    hvd.DistributedOptimizer(optimizer, compression=given)


def check_a_process_set() -> None:
    some = hvd.add_process_set([0, 2] if hvd.size() > 2 else [1])
    if some.included():
        for ours, by_pytorch in PAIRS:
            mine = numbers(2000)
            expected = hvd.allreduce(mine, compression=by_pytorch, process_set=some)
            found = hvd.allreduce(mine, compression=ours, process_set=some)
            require_same_bits(found, expected, ours)
    hvd.remove_process_set(some)


def check_joined_ranks() -> None:
    if hvd.rank() != 0:
        for ours, by_pytorch in PAIRS:
            mine = numbers(2000)
            expected = hvd.allreduce(mine, name="a", op=hvd.Sum, compression=by_pytorch)
            found = hvd.allreduce(mine, name="b", op=hvd.Sum, compression=ours)
            require_same_bits(found, expected, ours)
    hvd.join()


def check_a_rank_that_does_not_compress_is_told() -> None:
    compression = hvd.Compression.none if hvd.rank() == 0 else hvd.Compression.fp16
    for count in (5, 200_000):
        with pytest.raises(
            hvd.HorovodInternalError,
            match=r"Mismatched data types: One rank had type float32, but another rank had type "
            r"float16 \(compressed from float32\)\.",
        ):
            hvd.allreduce(torch.ones(count), name=f"unlike.{count}", compression=compression)


def check_a_rank_that_compresses_by_itself_belongs_to_the_others() -> None:
    mine = numbers(3000)
    expected = hvd.allreduce(mine, op=hvd.Sum, compression=FP16ByPyTorch)
    compression = FP16ByPyTorch if hvd.rank() == 0 else hvd.Compression.fp16
    found = hvd.allreduce(mine, op=hvd.Sum, compression=compression)
    require_same_bits(found, expected)
