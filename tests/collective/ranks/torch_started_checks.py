"""Asynchronous operations on PyTorch tensors: what the bindings start, and what they leave."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from horovod._session import SESSION
from horovod.torch.started import STARTED, NoCalls


class Tagged(torch.Tensor):
    """A subclass, of which the bindings know nothing."""


def starts(call: Callable[[], int]) -> bool:
    """Whether the bindings start an operation; waits for it."""
    before = STARTED.newest.under_way()
    handle = call()
    started = STARTED.newest.under_way() - before
    hvd.synchronize(handle)
    return started == 1


def check_what_the_bindings_start() -> None:
    own = torch.ones(4)
    parameter = torch.nn.Parameter(torch.ones(4))
    everyone = hvd.ProcessSet(range(hvd.size()))
    single = hvd.ProcessSet([0])
    hvd.add_process_set(single) if hvd.size() > 1 else None
    assert starts(lambda: hvd.allreduce_async(own))
    assert starts(lambda: hvd.allreduce_async_(own, name="started", op=hvd.Max))
    assert starts(lambda: hvd.allreduce_async_(parameter, op=hvd.Sum, prescale_factor=0.5))
    if hvd.rank() == 0:
        assert starts(lambda: hvd.allreduce_async_(own, op=hvd.Sum, process_set=single))
    else:
        with pytest.raises(ValueError, match="is not a member of the provided process set"):
            hvd.allreduce_async_(own, op=hvd.Sum, process_set=single)
    hvd.remove_process_set(single)
    with pytest.raises(ValueError, match="has not been registered"):
        hvd.allreduce_async_(own, process_set=everyone)
    assert starts(lambda: hvd.allreduce_async_(own, average=False))
    assert not starts(lambda: hvd.allreduce_async_(torch.ones(2, 3).t()))
    assert not starts(lambda: hvd.allreduce_async(own.as_subclass(Tagged)))
    assert starts(lambda: hvd.broadcast_async(own, 0))
    assert starts(lambda: hvd.broadcast_async_(parameter, hvd.size() - 1, name="started"))
    assert not starts(lambda: hvd.broadcast_async_(torch.ones(2, 3).t(), 0))
    assert not starts(lambda: hvd.broadcast_async(own.as_subclass(Tagged), 0))
    assert starts(lambda: hvd.allgather_async(own, name="started"))
    assert not starts(lambda: hvd.allgather_async(torch.ones(2, 3).t()))
    assert not starts(lambda: hvd.allgather_async(own, output=torch.empty(4 * hvd.size())))
    assert starts(lambda: hvd.reducescatter_async(torch.ones(hvd.size()), op=hvd.Max))
    assert not starts(
        lambda: hvd.reducescatter_async(torch.ones(hvd.size()), output=torch.empty(1))
    )
    even = torch.ones(2 * hvd.size())
    assert starts(lambda: hvd.alltoall_async(even))
    assert starts(lambda: hvd.alltoall_async(even, [1] * hvd.size(), name="started"))
    assert starts(lambda: hvd.alltoall_async(even, torch.ones(hvd.size(), dtype=torch.int64)))
    assert not starts(lambda: hvd.alltoall_async(even, output=torch.empty_like(even)))
    assert not starts(lambda: hvd.alltoall_async(even.as_subclass(Tagged)))
    assert starts(lambda: hvd.grouped_allreduce_async([own, torch.ones(2, 2)]))
    assert starts(lambda: hvd.grouped_allreduce_async_((own, own.long()), name="started"))
    assert not starts(lambda: hvd.grouped_allreduce_async([own, torch.ones(2, 3).t()]))
    assert not starts(lambda: hvd.grouped_allreduce_async([own.as_subclass(Tagged)]))


def check_results_of_started_operations() -> None:
    size = hvd.size()
    own = torch.full((3, 2), float(hvd.rank()))
    total = float(sum(range(size)))
    handle = hvd.allreduce_async(own, op=hvd.Sum)
    reduced = hvd.synchronize(handle)
    assert reduced is not own
    assert reduced.eq(total).all()
    assert own.eq(hvd.rank()).all()
    handle = hvd.allreduce_async_(own, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle) is own
    assert own.eq(2 * total).all()
    assert hvd.synchronize(handle) is None
    with pytest.raises(ValueError, match="was not created or has been cleared"):
        hvd.poll(handle)
    needs = torch.ones(2, requires_grad=True)
    made = hvd.synchronize(hvd.allreduce_async(needs, op=hvd.Sum))
    assert made.tolist() == [size] * 2
    assert not made.requires_grad
    empty = torch.ones(0)
    assert hvd.synchronize(hvd.allreduce_async_(empty)) is empty
    scalar = torch.tensor(1.0)
    assert hvd.synchronize(hvd.allreduce_async(scalar, op=hvd.Sum)).item() == size


def check_results_of_other_started_operations() -> None:
    rank, size = hvd.rank(), hvd.size()
    own = torch.full((2,), float(rank), requires_grad=True)
    sent = hvd.synchronize(hvd.broadcast_async(own, size - 1))
    assert sent.tolist() == [size - 1] * 2
    assert not sent.requires_grad
    assert hvd.synchronize(hvd.broadcast_async_(own, 0)) is own
    assert own.tolist() == [0, 0]
    rows = torch.full((rank + 1, 2), rank, dtype=torch.int16)
    handle = hvd.allgather_async(rows)
    while not hvd.poll(handle):
        pass
    gathered = hvd.synchronize(handle)
    assert gathered.dtype == torch.int16
    assert gathered[:, 1].tolist() == [r for r in range(size) for _ in range(r + 1)]
    assert hvd.synchronize(handle) is None
    large = hvd.synchronize(hvd.allgather_async(torch.full((300_000,), float(rank))))
    assert large[::300_000].tolist() == list(range(size))
    whole = torch.arange(size + 1.0)
    share = hvd.synchronize(hvd.reducescatter_async(whole, op=hvd.Sum, prescale_factor=2.0))
    assert share.tolist() == [2.0 * size * each for each in ([0, 1] if rank == 0 else [rank + 1])]
    assert hvd.synchronize(hvd.allgather_async(torch.ones(0, 3))).shape == (0, 3)
    handles = [hvd.allgather_async(torch.full((1,), float(i))) for i in range(20)]
    for i, each in reversed(list(enumerate(handles))):  # nobody else holds the tensors
        assert hvd.synchronize(each).tolist() == [i] * size


def check_results_of_started_alltoalls() -> None:
    rank, size = hvd.rank(), hvd.size()
    own = torch.arange(2 * size, dtype=torch.int16).reshape(size, 2) + 100 * rank
    received, rows = hvd.synchronize(hvd.alltoall_async(own))
    assert received.tolist() == [[100 * r + 2 * rank, 100 * r + 2 * rank + 1] for r in range(size)]
    assert (received.dtype, rows.dtype, rows.tolist()) == (torch.int16, torch.int32, [1] * size)
    # To each rank as many rows as its number, and one that goes to nobody.
    splits = list(range(size))
    parts = torch.full((sum(splits) + 1, 3), float(rank), requires_grad=True)
    for given in (splits, tuple(splits), torch.tensor(splits)):
        handle = hvd.alltoall_async(parts, given, name="uneven")
        while not hvd.poll(handle):
            pass
        received, rows = hvd.synchronize(handle)
        assert received[:, 2].tolist() == [r for r in range(size) for _ in range(rank)]
        assert received.shape[1] == 3
        assert not received.requires_grad
        assert rows.tolist() == [rank] * size
        assert hvd.synchronize(handle) is None
    large, _ = hvd.synchronize(hvd.alltoall_async(torch.full((400_000 * size,), float(rank))))
    assert large[::400_000].tolist() == list(range(size))
    wrong: Any
    for wrong, match in [
        ([1] * (size + 1), f"{size + 1} entries, {size} ranks"),
        ([-1] * size, "splits must not be negative, got -1"),
        ([len(parts) + 1] * size, "Sum of splits entries is greater than the first dimension"),
        ([1 << 40] * size, "Sum of splits entries is greater than the first dimension"),
        ([1 << 70] * size, "no tensor has so many rows"),
        ([1.0] * size, "splits to be a list of whole numbers"),
    ]:
        with pytest.raises(ValueError, match=match):
            hvd.alltoall_async(parts, wrong)


def check_other_operations_are_refused_as_blocking_ones_are() -> None:
    own = torch.ones(2)
    for root in (-1, hvd.size(), 1 << 40):
        with pytest.raises(ValueError, match="root rank"):
            hvd.broadcast_async_(own, root)
    with pytest.raises(TypeError, match="root_rank must be a rank, a whole number, not '0'"):
        hvd.broadcast_async_(own, "0")  # type: ignore[arg-type]
    for start in (hvd.allgather_async, hvd.reducescatter_async):
        with pytest.raises(hvd.HorovodInternalError, match="a rank-zero tensor"):
            hvd.synchronize(start(torch.tensor(1.0)))
    with pytest.raises(hvd.HorovodInternalError, match="Mismatched data types"):
        hvd.synchronize(hvd.allgather_async(own.half() if hvd.rank() == 0 else own))
    assert hvd.synchronize(hvd.broadcast_async(own, 0)).tolist() == [1, 1]


def check_memory_lives_as_long_as_its_operation() -> None:
    """Nobody but the operation holds the tensors that are on their way."""
    handles = [hvd.allreduce_async_(torch.full((1000,), float(i)), op=hvd.Sum) for i in range(50)]
    for i, handle in reversed(list(enumerate(handles))):
        assert hvd.synchronize(handle).eq(float(i * hvd.size())).all()


def check_handles_are_of_one_count() -> None:
    """No two operations have the same, whichever way they were started."""
    own = torch.ones(2)
    handles = []
    for _ in range(5):
        handles.append(hvd.allreduce_async(own))
        handles.append(hvd.allgather_async(own))
        handles.append(hvd.allreduce_async(own.as_subclass(Tagged)))
    assert len(set(handles)) == len(handles)
    for handle in reversed(handles):
        hvd.synchronize(handle)
    for unknown in (-1, 10**6, 1 << 80):
        assert hvd.synchronize(unknown) is None


def check_refused_operations_leave_no_trace() -> None:
    own = torch.ones(3)
    before = STARTED.newest.under_way()
    if hvd.rank() != 0:  # They start it when rank 0 has been refused: until then it cannot end.
        hvd.barrier()
    handle = hvd.allreduce_async_(own, name="twice", op=hvd.Sum)
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="same name as another tensor"):
            hvd.allreduce_async_(own, name="twice", op=hvd.Sum)
        hvd.barrier()
    hvd.synchronize(handle)
    for _ in range(3):
        # A number that was refused comes again: else the next unnamed ones would not meet.
        if hvd.rank() == 0:
            with pytest.raises(ValueError, match="scale factors must be finite"):
                hvd.allreduce_async_(torch.ones(2), prescale_factor=float("inf"))
        assert (
            hvd.synchronize(hvd.allreduce_async(own.fill_(1.0), op=hvd.Sum)).sum() == 3 * hvd.size()
        )
    with pytest.raises(hvd.HorovodInternalError, match="Mismatched ALLREDUCE tensor shapes"):
        hvd.synchronize(hvd.allreduce_async_(torch.ones(2 + hvd.rank()), name="unlike"))
    assert STARTED.newest.under_way() == before


def check_one_of_two_threads_gets_a_result() -> None:
    for _ in range(20):
        handle = hvd.allreduce_async(torch.ones(5), op=hvd.Sum)
        with ThreadPoolExecutor(3) as pool:
            got = list(pool.map(hvd.synchronize, [handle] * 3, timeout=60))
        (one,) = [result for result in got if result is not None]
        assert one.tolist() == [hvd.size()] * 5


def check_handles_are_true() -> None:
    """Scripts ask whether there is one."""
    handles = [
        hvd.allreduce_async(torch.ones(2)),
        hvd.allreduce_async(torch.ones(2, 3).t()),
        hvd.grouped_allgather_async([torch.ones(2)]),
    ]
    assert all(handles)
    for handle in handles:
        hvd.synchronize(handle)
    hvd.shutdown()
    hvd.init()
    first = hvd.grouped_reducescatter_async([torch.ones(2 * hvd.size())])
    assert first
    hvd.synchronize(first)


def check_handles_outlive_their_job() -> None:
    lonely, first = [torch.ones(2), torch.ones(2)], hvd.rank() == 0
    hvd.barrier()
    handles = [
        hvd.allreduce_async_(each, name=f"lonely.{i}") for i, each in enumerate(lonely) if first
    ]
    hvd.shutdown()
    if first:
        with pytest.raises(hvd.HorovodInternalError, match="has been shut down"):
            hvd.synchronize(handles[0])
        assert hvd.synchronize(handles[0]) is None
    with pytest.raises(ValueError, match="not been initialized"):
        hvd.allreduce_async_(lonely[0])
    hvd.init()
    fresh = hvd.allreduce_async(torch.ones(2), op=hvd.Sum)
    if first:
        assert fresh > max(handles)
        assert hvd.poll(handles[1])
        with pytest.raises(hvd.HorovodInternalError, match="has been shut down"):
            hvd.synchronize(handles[1])
    assert hvd.synchronize(fresh).tolist() == [hvd.size()] * 2
    hvd.shutdown()
    assert STARTED.newest.under_way() == 0
    assert isinstance(STARTED.newest, NoCalls)  # which lets go of the job
    hvd.init()


def check_a_fork_is_refused() -> None:
    handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum)
    child = os.fork()
    if child == 0:
        calls: list[Callable[[], object]] = [
            lambda: hvd.allreduce_async_(torch.ones(2)),
            lambda: hvd.synchronize(handle),
            lambda: hvd.poll(handle),
        ]
        try:
            for call in calls:
                with pytest.raises(RuntimeError, match="is a fork of process"):
                    call()
            hvd.shutdown()  # does nothing: the job is its parent's
            assert hvd.size() >= 2
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert hvd.synchronize(handle).tolist() == [hvd.size()] * 2


def check_arguments() -> None:
    now, own = STARTED.now, torch.ones(2)
    left: list[tuple[object, ...]] = [
        ([1.0], "left", None, 1.0, 1.0, 0, None),
        (own, 7, None, 1.0, 1.0, 0, None),
        (own, "left", 17, 1.0, 1.0, 0, None),
        (own, "left", hvd.Adasum, 1.0, 1.0, 0, None),
        (own, "left", None, 1, 1.0, 0, None),
        (own, "left", None, 1.0, 1.0, "0", None),
        (own, "left", None, 1.0, 1.0, -1, None),
        (own, "left", None, 1.0, 1.0, 0, "float16"),
        (own, "left", None, 1.0, 1.0, 0, -1),
    ]
    for arguments in left:
        assert now.allreduce_(*arguments) is None  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes 7 arguments, got 1"):
        now.allreduce_(own)  # type: ignore[call-arg]
    assert now.synchronize("1") is None  # type: ignore[arg-type]
    assert SESSION.started
