"""Averages and scaled sums of 16-bit types are rounded once, whichever way they go."""

from collections.abc import Callable

import torch

import horovod.torch as hvd

# On the fast lane, brought in part or whole, in slices, in rings, in blocks.
COUNTS = (1, 3_000, 20_000, 200_000, 1_500_000)
# What sums of all ranks' but the last one's are exact in: these have so many bits.
EXACT = {torch.float16: 2048, torch.bfloat16: 256}

Reduce = Callable[[torch.Tensor, int, float], torch.Tensor]


def operands(dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    """Of every rank: whole numbers of which all but one of the ranks' add up exactly."""
    most = EXACT[dtype] // (hvd.size() - 1)
    generator = torch.Generator().manual_seed(count)
    return [
        torch.randint(most * 3 // 4, most, (count,), generator=generator).to(dtype)
        for _ in range(hvd.size())
    ]


def rounded_once(dtype: torch.dtype, count: int, factor: float) -> torch.Tensor:
    """What the sum of all ranks' operands and a factor give."""
    total = torch.stack(operands(dtype, count)).to(torch.float32).sum(0)
    return (total * torch.tensor(factor, dtype=torch.float32)).to(dtype)


def compare(reduce: Reduce, counts: tuple[int, ...] = COUNTS) -> None:
    for dtype in EXACT:
        for count in counts:
            own = operands(dtype, count)[hvd.rank()]
            scaled = reduce(own.clone(), hvd.Sum, 0.3)
            assert torch.equal(scaled, rounded_once(dtype, count, 0.3)), f"{dtype} {count}"
            mean = reduce(own.clone(), hvd.Average, 1.0)
            assert torch.equal(mean, rounded_once(dtype, count, 1 / hvd.size())), f"{dtype} {count}"


def check_the_expected_results_are_not_those_of_sums_that_were_rounded() -> None:
    for dtype in EXACT:
        total = torch.stack(operands(dtype, 3_000)).to(torch.float32).sum(0).to(dtype)
        assert not torch.equal((total * 0.3).to(dtype), rounded_once(dtype, 3_000, 0.3))


def check_blocking_allreduces_round_once() -> None:
    compare(lambda own, op, factor: hvd.allreduce(own, op=op, postscale_factor=factor))
    compare(lambda own, op, factor: hvd.allreduce_(own, op=op, postscale_factor=factor))


def check_allreduces_of_multiplied_operands_round_once() -> None:
    def reduce(own: torch.Tensor, op: int, factor: float) -> torch.Tensor:
        half = own / 2
        return hvd.allreduce(half, op=op, prescale_factor=2.0, postscale_factor=factor)

    compare(reduce)


def check_asynchronous_allreduces_round_once() -> None:
    def reduce(own: torch.Tensor, op: int, factor: float) -> torch.Tensor:
        hvd.synchronize(hvd.allreduce_async_(own, op=op, postscale_factor=factor))
        return own

    compare(reduce)


def check_groups_round_once() -> None:
    def reduce(own: torch.Tensor, op: int, factor: float) -> torch.Tensor:
        first, last = own[: own.numel() // 3].clone(), own[own.numel() // 3 :].clone()
        return torch.cat(hvd.grouped_allreduce([first, last], op=op, postscale_factor=factor))

    compare(reduce)


def check_reducescatters_round_once() -> None:
    def reduce(own: torch.Tensor, op: int, factor: float) -> torch.Tensor:
        part = hvd.reducescatter(own, op=op, postscale_factor=factor)
        return hvd.allgather(part)

    compare(reduce, COUNTS[1:])


def check_compressed_allreduces_round_once() -> None:
    for compression, dtype in (
        (hvd.Compression.fp16, torch.float16),
        (hvd.Compression.bf16, torch.bfloat16),
    ):
        for count in COUNTS:
            own = operands(dtype, count)[hvd.rank()].to(torch.float32)
            mean = hvd.allreduce(own, compression=compression)
            expected = rounded_once(dtype, count, 1 / hvd.size()).to(torch.float32)
            assert torch.equal(mean, expected), f"{dtype} {count}"


def check_allreduces_in_shared_memory_round_once() -> None:
    for dtype in EXACT:
        shared = hvd.shared_empty(COUNTS[2], dtype=dtype)
        shared.copy_(operands(dtype, COUNTS[2])[hvd.rank()])
        hvd.allreduce_(shared, op=hvd.Sum, postscale_factor=0.3)
        assert torch.equal(shared, rounded_once(dtype, COUNTS[2], 0.3)), str(dtype)


def check_an_average_stays_finite_where_the_last_addition_would_not() -> None:
    for count in COUNTS:
        own = torch.full((count,), 60_000.0 / (hvd.size() - 1), dtype=torch.float16)
        assert torch.equal(hvd.allreduce(own), own), str(count)
