"""Asynchronous allreduces of PyTorch tensors: what the bindings start, and what they leave."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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
