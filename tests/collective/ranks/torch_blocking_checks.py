"""Blocking calls of the PyTorch front end: what the bindings run at once, and what they leave."""

import os
import resource
from collections.abc import Callable
from unittest import mock

import pytest
import torch

import horovod.torch as hvd
from horovod._session import SESSION
from horovod.torch import redistribution
from horovod.torch.blocking import CALLS, NoCalls

ON_ONE_HOST = os.environ["HOROVOD_TRANSPORT"] == "shm"


class Tagged(torch.Tensor):
    """A subclass, of which the bindings know nothing."""


def ran_at_once(call: Callable[[], object]) -> bool:
    """Whether a call, repeated until the ranks come to it together, gets by without a thread."""
    runtime = SESSION.member.runtime
    for _ in range(50):
        before = runtime.fast_operations
        call()
        if hvd.allreduce_(torch.tensor(runtime.fast_operations - before), op=hvd.Min):
            return True
    return False


def check_all_kinds_run_at_once() -> None:
    own = torch.ones(hvd.size(), 3)
    groups: list[Callable[[], object]] = [
        lambda: hvd.grouped_allreduce([own, own.long()]),
        lambda: hvd.grouped_allreduce((own, own[0]), name="at.once"),
        lambda: hvd.grouped_allreduce_([own, torch.ones(2)]),
        lambda: hvd.grouped_allreduce_([own.clone() for _ in range(8)], name="at.once"),
    ]
    for call in groups:
        assert ran_at_once(call) == ON_ONE_HOST
    calls: list[Callable[[], object]] = [
        lambda: hvd.allreduce(own),
        lambda: hvd.allreduce_(own, name="at.once"),
        lambda: hvd.grouped_allreduce_([own], op=hvd.Max),
        lambda: hvd.broadcast(own, 0),
        lambda: hvd.broadcast_(own, 1, "at.once"),
        lambda: hvd.allgather(own),
        lambda: hvd.alltoall(own),
        lambda: hvd.alltoall(own, [1] * hvd.size()),
        lambda: hvd.alltoall(own, torch.ones(hvd.size(), dtype=torch.int32), name="at.once"),
        lambda: hvd.reducescatter(own, op=hvd.Sum),
        hvd.barrier,
    ]
    for call in calls:
        assert ran_at_once(call)


def check_results_of_the_bindings() -> None:
    ranks = range(hvd.size())
    own = torch.arange(2 * hvd.size()).reshape(-1, 2) + 10 * hvd.rank()
    everyones = [torch.arange(2 * hvd.size()).reshape(-1, 2) + 10 * rank for rank in ranks]
    total = torch.stack(everyones).sum(0)
    reduced = hvd.allreduce(own, op=hvd.Sum)
    assert torch.equal(reduced, total)
    assert reduced.resize_(50).shape == (50,)  # memory of its own, like any other's
    assert torch.equal(hvd.allgather(own), torch.cat(everyones))
    assert torch.equal(hvd.broadcast(own, 1), everyones[1])
    assert torch.equal(hvd.alltoall(own), torch.stack([each[hvd.rank()] for each in everyones]))
    # The first rank gets two rows of everyone, the last one none.
    splits = [2, *[1] * (hvd.size() - 2), 0]
    start = sum(splits[: hvd.rank()])
    parts = [each[start : start + splits[hvd.rank()]] for each in everyones]
    for given in (splits, tuple(splits), torch.tensor(splits)):
        received, rows = hvd.alltoall(own, given)
        assert torch.equal(received, torch.cat(parts))
        assert rows.tolist() == [splits[hvd.rank()]] * hvd.size()
        assert rows.dtype is torch.int32
    assert torch.equal(hvd.reducescatter(own, op=hvd.Sum), total[hvd.rank()][None])
    scaled = hvd.allreduce(own.double(), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    assert torch.equal(scaled, 1.5 * total)
    assert torch.equal(hvd.allreduce(own.double()), total.double() / hvd.size())
    parameter = torch.nn.Parameter(torch.full((3,), float(hvd.rank())))
    assert hvd.allreduce_(parameter, op=hvd.Max) is parameter
    assert parameter.tolist() == [hvd.size() - 1] * 3
    scalar = torch.tensor(1.0)
    assert hvd.allreduce_(scalar, op=hvd.Sum) is scalar
    assert scalar.item() == hvd.size()


def check_splits_are_taken_by_the_bindings() -> None:
    """Whether the ranks meet or not, on one host or several."""
    own = torch.arange(hvd.size()) + 10 * hvd.rank()
    with mock.patch.object(redistribution, "_redistribute", side_effect=AssertionError):
        for _ in range(3):
            received, rows = hvd.alltoall(own, [1] * hvd.size())
            assert received.tolist() == [hvd.rank() + 10 * rank for rank in range(hvd.size())]
            assert rows.tolist() == [1] * hvd.size()


def check_memory_of_large_results_is_used_again() -> None:
    count = 10 << 20  # of float32: more than the C library keeps when it is freed
    large = torch.full((count,), hvd.rank() + 1.0)
    total = hvd.size() * (hvd.size() + 1) / 2
    calls: dict[str, tuple[Callable[[], torch.Tensor], float]] = {
        "allreduce": (lambda: hvd.allreduce(large, op=hvd.Sum), total),
        "allreduce_async": (
            lambda: hvd.synchronize(hvd.allreduce_async(large, op=hvd.Sum)),
            total,
        ),
        "grouped_allreduce": (lambda: hvd.grouped_allreduce([large], op=hvd.Sum)[0], total),
        "broadcast": (lambda: hvd.broadcast(large, 1), 2.0),
        "broadcast_async": (lambda: hvd.synchronize(hvd.broadcast_async(large, 1)), 2.0),
    }
    for name, (call, expected) in calls.items():
        first, second = call(), call()
        assert first.data_ptr() != second.data_ptr(), name
        assert (first == expected).all(), name
        assert (second == expected).all(), name
        del first, second
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        call()
        pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        assert pages < large.nbytes // resource.getpagesize() // 4, name


def check_what_the_bindings_leave_alone() -> None:
    name, size = "left", hvd.size()
    left = [
        [1.0],
        torch.ones(2, 3).t(),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(2, device="meta"),
        torch.eye(2).to_sparse(),
        torch.ones(2).as_subclass(Tagged),
        torch.tensor([1j]).conj().imag,
        torch.ones(2, requires_grad=True),
    ]
    for tensor in left:
        assert CALLS.now.allreduce(tensor, name, None, 1.0, 1.0) is None
        assert CALLS.now.allgather(tensor, name, None) is None
    changed = torch.ones(1)
    for _ in range(3):  # one that is known not to be read as negative
        hvd.allreduce_(changed, op=hvd.Max)
    changed.data = torch.tensor([1j]).conj().imag
    assert CALLS.now.allreduce(changed, name, None, 1.0, 1.0) is None
    plain = torch.ones(2)
    bad_ops: list[object] = [hvd.Adasum, 17, -1, True, "Sum", 1 << 70]
    for op in bad_ops:
        assert CALLS.now.allreduce(plain, name, op, 1.0, 1.0) is None  # type: ignore[arg-type]
    for bad_name in (7, "x" * 300, "\ud800", "x\0c"):
        assert CALLS.now.allgather(plain, bad_name, None) is None  # type: ignore[arg-type]
    assert CALLS.now.broadcast(plain, name, -1) is None
    bad_splits: list[object] = [[], [1.0] * size, [True] * size, (1,) * size, [1 << 70] * size]
    for splits in bad_splits:
        assert CALLS.now.alltoall(plain, splits, name, None) is None  # type: ignore[arg-type]
    assert CALLS.now.alltoall(plain, [1] * size, name, torch.ones(2)) is None
    assert NoCalls().allreduce_(plain, name, None, 1.0, 1.0) is None
    with pytest.raises(TypeError, match="takes 3 arguments, got 1"):
        CALLS.now.allgather(plain)  # type: ignore[call-arg]
    # The ordinary way takes them, with the same results.
    assert hvd.allreduce(plain.as_subclass(Tagged), op=hvd.Sum).tolist() == [size] * 2
    negative = torch.tensor([2j]).conj().imag
    assert hvd.allreduce(negative, op=hvd.Sum).tolist() == [-2.0 * size]
    assert hvd.allreduce(plain, op=hvd.Sum, name="x" * 300).tolist() == [size] * 2
    with torch.no_grad():
        assert hvd.allreduce(left[-1], op=hvd.Sum).tolist() == [size] * 2  # type: ignore[arg-type]
    # Names that would end before their end, and take others' operations.
    for name, fault in (("x\0c", "holds a zero byte"), ("\ud800", "cannot be written in UTF-8")):
        for operation in (hvd.allreduce, hvd.allreduce_async, hvd.allgather_async):
            with pytest.raises(ValueError, match=fault):
                operation(plain, name=name)


def check_numbers_of_unnamed_calls_agree_whichever_way_they_take() -> None:
    expected = float(hvd.size())
    for turn in range(30):
        plain = torch.ones(3)
        # A rank of its own takes the ordinary way, where the others wait to meet it.
        work = plain.as_subclass(Tagged) if turn % hvd.size() == hvd.rank() else plain
        assert hvd.allreduce(work, op=hvd.Sum).tolist() == [expected] * 3
        with pytest.raises(ValueError, match="invalid root rank"):
            hvd.broadcast(plain, hvd.size())
        assert hvd.broadcast_(plain, 0).tolist() == [1.0] * 3


def check_calls_that_one_rank_alone_is_refused_give_their_numbers_back() -> None:
    rows = torch.ones(hvd.size(), 2)
    refused: list[Callable[[], object]] = [
        lambda: hvd.broadcast(rows, hvd.size()),
        lambda: hvd.broadcast_(rows, -1),
        lambda: hvd.alltoall(rows, splits=[-1] * hvd.size()),
        lambda: hvd.allreduce(rows > 0),
        lambda: hvd.allreduce_(rows > 0),
        lambda: hvd.allreduce(rows, prescale_factor=float("inf")),
        lambda: hvd.grouped_allreduce([rows > 0, rows > 0]),
        lambda: hvd.reducescatter(rows > 0),
    ]
    if hvd.rank() == 0:
        for call in refused:
            with pytest.raises(ValueError):
                call()
    for result in (hvd.broadcast(rows, 0), hvd.broadcast_(rows, 0), hvd.alltoall(rows)):
        assert result.tolist() == rows.tolist()
    sums = (hvd.allreduce(rows), hvd.allreduce_(rows.clone()), *hvd.grouped_allreduce([rows]))
    for result in sums:
        assert result.tolist() == rows.tolist()
    assert hvd.reducescatter(rows, op=hvd.Sum).tolist() == [[hvd.size()] * 2]


def check_an_empty_name_is_none() -> None:
    handles = [hvd.allreduce_async(torch.ones(2), name=name) for name in ("", "", None)]
    for handle in handles:
        assert hvd.synchronize(handle).tolist() == [1.0] * 2
    assert hvd.allreduce(torch.ones(2), name="").tolist() == [1.0] * 2


def check_mismatches_of_blocking_calls() -> None:
    for _ in range(5):
        with pytest.raises(hvd.HorovodInternalError, match="Mismatched ALLREDUCE tensor shapes"):
            hvd.allreduce_(torch.ones(2 + hvd.rank()), name="unlike")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def check_unnamed_calls_that_do_not_agree_name_their_places() -> None:
    with pytest.raises(hvd.HorovodInternalError, match="Mismatched ALLREDUCE") as error:
        hvd.allreduce(torch.ones(2 + hvd.rank()))
    text = str(error.value)
    place = f"{__file__}:{error.traceback[0].lineno + 1}"
    assert "unnamed allreduce operation number" in text
    assert f"Called by rank 0 at {place}; rank 1 at {place}" in text, text
    torch.testing.assert_close(hvd.allreduce(torch.ones(2)), torch.ones(2))
