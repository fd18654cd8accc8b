"""The PyTorch front end's operations on a GPU if there is one for each rank, else on the CPU."""

import contextlib
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.compared_results import FLOATS, INTEGERS, total
from collective.ranks.gpu_of_rank import has_gpus, place
from horovod._native import _buildinfo
from horovod.common.exceptions import HorovodInternalError


def check_every_type_is_reduced() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        for elements in (1, 1000, 300_001):
            mine = torch.full((elements,), hvd.rank() + 1, dtype=dtype, device=place())
            found = hvd.allreduce(mine, op=hvd.Sum)
            assert found.device == mine.device
            assert found.eq(total()).all(), (dtype, elements)
            assert mine.eq(hvd.rank() + 1).all(), "the argument was changed"


def check_a_type_that_gpus_do_not_reduce() -> None:
    mine = torch.full((3,), hvd.rank() + 1, dtype=torch.int16, device=place())
    if mine.is_cpu:
        assert hvd.allreduce(mine, op=hvd.Sum).eq(total()).all()
    else:
        with pytest.raises(ValueError, match="NCCL does not reduce int16: convert the tensor"):
            hvd.allreduce(mine, op=hvd.Sum)
    assert hvd.broadcast(mine, root_rank=0).eq(1).all()


def check_ranks_that_share_a_gpu_are_refused_together() -> None:
    """NCCL gives no two ranks one GPU: an error on all of them, after which the job goes on."""
    if has_gpus() or not _buildinfo.GPU or not torch.cuda.is_available():
        return
    with pytest.raises(HorovodInternalError, match="cannot take part in operations on GPUs"):
        hvd.allreduce(torch.ones(3, device="cuda:0"))
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum).eq(hvd.size()).all()


def check_least_greatest_and_product() -> None:
    mine = torch.full((77,), hvd.rank() + 2.0, device=place())
    product = 1.0
    for rank in range(hvd.size()):
        product *= rank + 2
    for op, expected in ((hvd.Min, 2.0), (hvd.Max, hvd.size() + 1.0), (hvd.Product, product)):
        assert hvd.allreduce(mine, op=op).eq(expected).all()


def check_adasum() -> None:
    along = torch.zeros(2, 5, device=place())
    along[hvd.rank() % 2] = hvd.rank() + 1.0
    found = hvd.allreduce(along, op=hvd.Adasum)  # orthogonal ones add up
    assert found.device == along.device
    assert found[:, 0].tolist() == [1.0, 2.0 if hvd.size() > 1 else 0.0]
    same = torch.full((7,), 3.0, device=place())
    assert torch.allclose(hvd.allreduce(same, op=hvd.Adasum), same)


def check_factors() -> None:
    for dtype in FLOATS:
        mine = torch.full((4097,), 2.0 * (hvd.rank() + 1), dtype=dtype, device=place())
        found = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
        assert found.eq(4 * total()).all(), dtype


def check_many_tensors_in_flight() -> None:
    tensors = [
        torch.full((1 + 37 * i,), float(i * (hvd.rank() + 1)), device=place()) for i in range(100)
    ]
    handles = [
        hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"many {i}")
        for i, tensor in enumerate(tensors)
    ]
    for i, handle in reversed(list(enumerate(handles))):
        assert hvd.synchronize(handle).eq(float(i * total())).all(), i
        assert tensors[i].eq(float(i * total())).all(), i


def check_a_group() -> None:
    tensors = [torch.full((n,), hvd.rank() + 1.0, device=place()) for n in (1, 100, 10_000)]
    for found in hvd.grouped_allreduce(tensors, op=hvd.Sum):
        assert found.eq(total()).all()


def check_other_operations() -> None:
    me, size, where = hvd.rank(), hvd.size(), place()
    gathered = hvd.allgather(torch.full((me + 1, 3), float(me), device=where))
    expected = torch.cat([torch.full((rank + 1, 3), float(rank)) for rank in range(size)])
    assert gathered.cpu().equal(expected)
    sent = hvd.broadcast(torch.full((5000,), me, device=where), root_rank=size - 1)
    assert sent.eq(size - 1).all()
    exchanged, rows = hvd.alltoall(
        torch.arange(float(size * 2), device=where) + 100 * me, splits=torch.full((size,), 2)
    )
    assert rows.tolist() == [2] * size
    assert exchanged.tolist() == [100.0 * r + 2 * me + i for r in range(size) for i in (0, 1)]
    share = hvd.reducescatter(torch.ones(size * 3, 2, device=where), op=hvd.Sum)
    assert share.shape == (3, 2)
    assert share.eq(size).all()
    for found in (gathered, sent, exchanged, share):
        assert found.device == where


def check_memory_of_the_callers_is_filled() -> None:
    room = torch.empty(hvd.size() * 2, 3, device=place())
    found = hvd.allgather(torch.full((2, 3), float(hvd.rank()), device=place()), output=room)
    assert found is room
    assert room[::2, 0].tolist() == [float(rank) for rank in range(hvd.size())]


def check_what_a_stream_makes_and_takes_is_seen() -> None:
    """On a GPU, an operation waits for what its stream has been given, and the stream for it."""
    where = place()
    stream: Any = contextlib.nullcontext()
    if where.type == "cuda":
        stream = torch.cuda.stream(torch.cuda.Stream(where))  # type: ignore[no-untyped-call]
    with stream:
        for turn in range(20):
            made = torch.ones(512, 512, device=where)
            for _ in range(5):
                made = made @ torch.eye(512, device=where)
            found = hvd.allreduce_(made * (hvd.rank() + 1 + turn), op=hvd.Sum)
            assert (found * 2).eq(2.0 * (total() + turn * hvd.size())).all(), turn


def check_a_group_waits_for_the_streams_of_all_its_gradients() -> None:
    device = place()
    weights = [torch.nn.Parameter(torch.ones(1000, 1000, device=device)) for _ in range(2)]
    sgd = torch.optim.SGD(weights, lr=1.0)
    named = [(str(number), weight) for number, weight in enumerate(weights)]
    optimizer = hvd.DistributedOptimizer(sgd, named, op=hvd.Sum, groups=[weights])
    side = torch.cuda.Stream(device) if has_gpus() else None  # type: ignore[no-untyped-call]
    losses = []
    for number, weight in enumerate(weights):
        work = torch.full((1000, 1000), float(hvd.rank() + 1), device=device)
        if side is not None:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side if number == 0 else None):
            for _ in range(50 if number == 0 else 0):  # to come late
                work = (work @ work).clamp(0, 0) + (hvd.rank() + 1)
            losses.append((weight * work).sum())
    if side is not None:
        torch.cuda.current_stream().wait_stream(side)
    torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    for weight in weights:
        assert weight.eq(1.0 - total()).all()


def check_compression() -> None:
    mine = torch.full((10_000,), hvd.rank() + 1.0, device=place())
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        found = hvd.allreduce(mine, op=hvd.Sum, compression=compression)
        assert found.dtype == torch.float32
        assert found.eq(total()).all()


def check_ranks_that_hold_other_types_reduce_together() -> None:
    for elements in (1, 3, 8, 1001):
        mine = torch.full((elements,), hvd.rank() + 1.0, device=place())
        if hvd.rank() % 2 == 0:
            found = hvd.allreduce(mine, op=hvd.Sum, compression=hvd.Compression.fp16)
        else:
            found = hvd.allreduce(mine.half(), op=hvd.Sum)
        assert found.eq(total()).all(), elements


def check_an_embedding_that_a_rank_does_not_use_in_a_step() -> None:
    torch.manual_seed(3)
    table = torch.nn.Embedding(10, 3, sparse=True).to(place())
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=0.1), named_parameters=table.named_parameters()
    )
    for step in range(3):
        optimizer.zero_grad()
        before = table.weight.detach().clone()
        if step == 0 or hvd.rank() == 0:
            table(torch.tensor([step], device=place())).sum().backward()
        optimizer.step()
        users = hvd.size() if step == 0 else 1
        before[step] -= 0.1 * users / hvd.size()
        assert torch.allclose(table.weight, before), step


def check_training_comes_to_the_joined_batchs_parameters() -> None:
    torch.manual_seed(7)
    where = place()
    inputs, targets = torch.randn(hvd.size() * 8, 20), torch.randn(hvd.size() * 8, 1)
    models = [torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 1)) for _ in (0, 1)]
    models[1].load_state_dict(models[0].state_dict())
    alone, together = models[0].to(where), models[1].to(where)
    plain = torch.optim.SGD(alone.parameters(), lr=0.05)
    joined = hvd.DistributedOptimizer(
        torch.optim.SGD(together.parameters(), lr=0.05),
        named_parameters=together.named_parameters(),
    )
    hvd.broadcast_parameters(together.state_dict(), root_rank=0)
    part = slice(hvd.rank() * 8, hvd.rank() * 8 + 8)
    for _ in range(5):
        for model, optimizer, rows in ((alone, plain, slice(None)), (together, joined, part)):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(
                model(inputs[rows].to(where)), targets[rows].to(where)
            )
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    for one, other in zip(alone.parameters(), together.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5)


def check_a_joined_rank_adds_zeros() -> None:
    last = hvd.size() - 1
    if hvd.rank() != last:
        for elements in (1, 1000, 300_001):
            mine = torch.ones(elements, device=place())
            assert hvd.allreduce(mine, op=hvd.Sum).eq(last).all(), elements
        group = [torch.ones(n, device=place(), dtype=dtype) for n in (3, 70) for dtype in FLOATS]
        for found in hvd.grouped_allreduce(group, op=hvd.Sum):
            assert found.eq(last).all(), found.dtype
    hvd.join(place().index if has_gpus() else -1)
    assert hvd.allreduce(torch.ones(2, device=place()), op=hvd.Sum).eq(hvd.size()).all()


def check_an_optimizers_state_reaches_ranks_without_one() -> None:
    model = torch.nn.Linear(3, 1).to(place())
    optimizer = torch.optim.Adam(model.parameters(), lr=hvd.rank() + 1.0)
    if hvd.rank() == 0:
        model(torch.ones(2, 3, device=place())).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    state = optimizer.state[model.weight]
    assert state["exp_avg"].device == place()
    assert torch.allclose(state["exp_avg"], torch.tensor(0.2, device=place()))
    assert optimizer.param_groups[0]["lr"] == 1.0
