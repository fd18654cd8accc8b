"""Tensors of any shape and place in memory, on a GPU if there is one for each rank."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.compared_results import same, total
from collective.ranks.gpu_of_rank import place
from horovod.common.exceptions import HorovodInternalError


def check_empty_tensors_in_every_operation() -> None:
    calls: list[Callable[[torch.Tensor], torch.Tensor]] = [
        hvd.allreduce,
        lambda t: hvd.allreduce(t, compression=hvd.Compression.fp16),
        lambda t: hvd.allreduce_(t, prescale_factor=2.0),
        lambda t: hvd.broadcast(t, hvd.size() - 1),
        lambda t: hvd.broadcast_(t, 0),
        hvd.alltoall,
        lambda t: hvd.grouped_allreduce([t, t])[1],
    ]
    for shape in ((0,), (0, 3), (hvd.size(), 0)):
        mine = torch.empty(shape, device=place())
        for number, call in enumerate(calls):
            found = call(mine)
            assert found.shape == shape, (number, shape)
            assert found.device == mine.device, number
        assert hvd.allgather(mine).shape == (shape[0] * hvd.size(), *shape[1:])
        assert hvd.grouped_allgather([mine, mine])[1].device == mine.device
        assert hvd.reducescatter(mine).shape == (shape[0] // hvd.size(), *shape[1:])
        found, rows = hvd.alltoall(mine, [0] * hvd.size())
        assert found.shape[0] == 0
        assert rows.tolist() == [0] * hvd.size()
    full = torch.ones(3, device=place())
    group = hvd.grouped_allreduce([full[:0], full, full[:0]], op=hvd.Sum)
    assert [each.numel() for each in group] == [0, 3, 0]
    assert group[1].eq(hvd.size()).all()
    # One rank alone has something.
    part = torch.full((5 if hvd.rank() == 0 else 0, 2), 4.0, device=place())
    found = hvd.allgather(part)
    assert found.shape == (5, 2)
    assert found.device == part.device
    assert found.eq(4).all()


def check_tensors_without_dimensions() -> None:
    mine = torch.tensor(hvd.rank() + 1.0, device=place())
    assert hvd.allreduce(mine, op=hvd.Sum).item() == total()
    with pytest.raises(HorovodInternalError, match="rank-zero tensor"):
        hvd.allgather(mine)
    assert hvd.broadcast(mine, hvd.size() - 1).item() == hvd.size()
    group = hvd.grouped_allreduce([mine, mine.reshape(1)], op=hvd.Sum)
    assert [each.dim() for each in group] == [0, 1]
    packed = hvd.allreduce(mine, op=hvd.Sum, compression=hvd.Compression.bf16)
    assert packed.dim() == 0
    assert packed.item() == total()
    hvd.allreduce_(mine, op=hvd.Sum)
    assert mine.dim() == 0
    assert mine.item() == total()
    if hvd.size() in (1, 2, 4):
        assert hvd.allreduce(mine, op=hvd.Adasum).item() == total()


def check_tensors_that_are_not_contiguous() -> None:
    def made() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        whole = torch.arange(4 * 6 * 8 * 2.0, device=place()).reshape(4, 6, 8, 2) + hvd.rank()
        yield whole, whole.transpose(1, 2)
        yield whole, whole[:, ::2, 1:7:3]
        yield whole, whole.flip(0).permute(3, 2, 1, 0)
        last = whole.contiguous(memory_format=torch.channels_last)
        yield last, last
        yield last, last[1:3]

    for number, (_, view) in enumerate(made()):
        plain = view.contiguous()
        assert same(hvd.allreduce(view, op=hvd.Sum), hvd.allreduce(plain, op=hvd.Sum)), number
        assert same(hvd.allgather(view), hvd.allgather(plain)), number
        assert same(hvd.broadcast(view, 0), hvd.broadcast(plain, 0)), number
        assert same(hvd.reducescatter(view), hvd.reducescatter(plain)), number
        splits = [view.shape[0] // hvd.size()] * hvd.size()
        assert same(hvd.alltoall(view, splits)[0], hvd.alltoall(plain, splits)[0]), number
    in_place: list[Callable[[torch.Tensor], Any]] = [
        lambda t: hvd.allreduce_(t, op=hvd.Sum),
        lambda t: hvd.broadcast_(t, hvd.size() - 1),
        lambda t: hvd.grouped_allreduce_([t, torch.ones(3, device=place())], op=hvd.Sum),
        lambda t: hvd.synchronize(hvd.allreduce_async_(t, op=hvd.Max, prescale_factor=-1.0)),
    ]
    for number, call in enumerate(in_place):
        for view_number, (whole, view) in enumerate(made()):
            expected = whole.clone(memory_format=torch.preserve_format)
            target = expected.as_strided(view.shape, view.stride(), view.storage_offset())
            if target.data_ptr() - expected.data_ptr() != view.data_ptr() - whole.data_ptr():
                continue  # of a copy
            result = view.contiguous()
            call(result)
            target.copy_(result)
            call(view)
            assert same(whole, expected), (number, view_number)


def check_parts_that_begin_anywhere() -> None:
    for dtype in (torch.int8, torch.bfloat16, torch.float32, torch.float64, torch.int64):
        memory = torch.full((4000,), 3, dtype=dtype, device=place())
        parts = [(1, 2), (3, 20), (31, 1), (33, 1001), (1035, 7), (1100, 2900)]
        for grouped in (True, False):
            memory.fill_(3)
            views = [memory[begin : begin + count] for begin, count in parts]
            for view in views:
                view.fill_(hvd.rank() + 1)
            if grouped:
                hvd.grouped_allreduce_(views, op=hvd.Sum)
            else:
                handles = [hvd.allreduce_async_(view, op=hvd.Sum) for view in views]
                for handle in handles:
                    hvd.synchronize(handle)
            expected = torch.full((4000,), 3, dtype=dtype)
            for begin, count in parts:
                expected[begin : begin + count] = total()
            assert same(memory, expected), (dtype, grouped)
        # Converted on the way, from places of any alignment.
        if dtype in (torch.float32, torch.float64):
            memory.fill_(hvd.rank() + 1)
            for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
                found = hvd.grouped_allreduce(
                    [memory[1:18], memory[3:1000]], op=hvd.Sum, compression=compression
                )
                assert all(each.eq(total()).all() for each in found), (dtype, compression)


def check_reducescatters_of_any_number_of_rows() -> None:
    wrong: list[Any] = []  # what may fail on one rank alone is said at the end: the others go on
    for rows in (0, 1, hvd.size() - 1, hvd.size() + 1, 3 * hvd.size() + 2):
        plain = torch.arange(rows * 3).reshape(rows, 3) + hvd.rank() + 1
        for dtype in (torch.float16, torch.float32, torch.int64, torch.uint8):
            mine = plain.to(dtype)
            for op in (hvd.Sum, hvd.Average, hvd.Max):
                for before, after in ((1.0, 1.0), (2.0, 0.5)):
                    how: Any = {"op": op, "prescale_factor": before, "postscale_factor": after}
                    expected = hvd.reducescatter(mine, **how)
                    found = hvd.reducescatter(mine.to(place()), **how)
                    if found.device != place() or not same(found, expected):
                        wrong.append((rows, dtype, how))
        several = [plain.float().to(place()), plain.to(place()) * 2]
        for found, one in zip(hvd.grouped_reducescatter(several, op=hvd.Sum), several, strict=True):
            if not same(found, hvd.reducescatter(one.cpu(), op=hvd.Sum)):
                wrong.append((rows, "group"))
    assert not wrong, wrong


def check_alltoalls_of_unlike_parts() -> None:
    size, me = hvd.size(), hvd.rank()
    wrong = []
    cases = (
        [(me + peer) % 3 for peer in range(size)],  # some of them none
        [peer + 1 for peer in range(size)],  # ranks get as many as they do not give
        [4 if peer == 0 else 0 for peer in range(size)],  # all to one
    )
    for number, splits in enumerate(cases):
        for dtype in (torch.float32, torch.int16, torch.bool, torch.bfloat16):
            rows = sum(splits) + number  # of which some go to nobody
            mine = (torch.arange(rows * 5).reshape(rows, 5) * (me + 1)).to(dtype)
            expected, counts = hvd.alltoall(mine, splits)
            given: Any = splits
            if number == 1:
                given = torch.tensor(splits, device=place())
            found, found_counts = hvd.alltoall(mine.to(place()), given)
            fine = found.device == place() and found_counts.is_cpu
            fine = fine and found_counts.tolist() == counts.tolist()
            if not fine or not same(found, expected):
                wrong.append((number, dtype))
    with pytest.raises(ValueError, match="splits"):
        hvd.alltoall(torch.ones(3, 2, device=place()), [4] * size)
    assert hvd.alltoall(torch.ones(size, device=place())).eq(1).all()
    assert not wrong, wrong
