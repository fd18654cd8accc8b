"""The PyTorch front end: alltoall, reducescatter, groups, process sets, join, and gradients."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.torch import mpi_ops
from horovod.torch.adasum import combine_all

SETS: list[hvd.ProcessSet] = []


def mine(rows: int, columns: int = 2, rank: int | None = None) -> torch.Tensor:
    """A tensor that is another one on each rank."""
    who = hvd.rank() if rank is None else rank
    return torch.arange(float(rows * columns)).reshape(rows, columns) + 100 * who


def part_of_set() -> hvd.ProcessSet:
    """All ranks but the first, added once."""
    if not SETS:
        SETS.append(hvd.add_process_set(range(1, hvd.size())))
    return SETS[0]


def check_alltoall() -> None:
    n, me = hvd.size(), hvd.rank()
    even = hvd.alltoall(mine(2 * n))
    assert torch.equal(
        even, torch.cat([mine(2 * n, rank=r)[2 * me : 2 * me + 2] for r in range(n)])
    )
    splits = list(range(n))  # nothing for rank 0
    for given in (splits, torch.tensor(splits), torch.tensor(splits, dtype=torch.int32)):
        received, rows = hvd.alltoall(mine(sum(splits)), splits=given, name="uneven")
        start = sum(splits[:me])
        expected = [mine(sum(splits), rank=r)[start : start + me] for r in range(n)]
        assert torch.equal(received, torch.cat(expected))
        assert rows.tolist() == [me] * n
        assert rows.dtype == torch.int32
    handle = hvd.alltoall_async(mine(n), splits=[1] * n)
    received, rows = hvd.synchronize(handle)
    assert torch.equal(received[:, 0], torch.tensor([2.0 * me + 100 * r for r in range(n)]))
    evenly, rows = hvd.synchronize(hvd.alltoall_async(mine(n)))
    assert torch.equal(evenly, received)
    assert (rows.tolist(), rows.dtype) == ([1] * n, torch.int32)
    assert torch.equal(hvd.alltoall(mine(n)), received)
    with pytest.raises(ValueError, match="split"):
        hvd.alltoall(mine(n), splits=[n + 1] * n)


def check_splits_that_are_no_whole_numbers_are_refused() -> None:
    n = hvd.size()
    bad: list[Any] = [
        torch.ones(n),
        torch.ones(n, dtype=torch.bool),
        torch.ones((n, 1), dtype=torch.int32),
        torch.tensor(1),
        [1.0] * n,
        [True] * n,
        [[1]] * n,
        "1" * n,
        1,
    ]
    for splits in bad:
        for call in (hvd.alltoall, hvd.alltoall_async):
            with pytest.raises(ValueError, match="expects splits to be a list of whole numbers"):
                call(mine(n), splits=splits)
        with pytest.raises(ValueError, match="expects splits to be a list of whole numbers"):
            hvd.alltoall(mine(n).requires_grad_(), splits=splits)
    ones = torch.ones(n, dtype=torch.int64)
    for good in (ones, ones.to(torch.uint8), list(ones), (1,) * n):
        assert hvd.alltoall(mine(n), splits=good)[1].tolist() == [1] * n


def check_gradient_of_alltoall() -> None:
    n, me = hvd.size(), hvd.rank()
    tensor = mine(n + 2).requires_grad_()  # two rows go to nobody
    received, _ = hvd.alltoall(tensor, splits=[1] * n)
    run_backward((received * (me + 1)).sum())
    assert tensor.grad is not None
    assert tensor.grad[:, 0].tolist() == [r + 1.0 for r in range(n)] + [0.0, 0.0]


def check_more_rows_than_32_bits_count() -> None:
    """Rows without columns take no memory, so that there may be as many."""
    rows, n, me = 2**31 + 7, hvd.size(), hvd.rank()
    tall = torch.empty(rows, 0)
    assert hvd.allreduce(tall).shape == (rows, 0)
    assert hvd.broadcast(tall, 0).shape == (rows, 0)
    assert hvd.allgather(tall).shape == (rows * n, 0)
    assert hvd.grouped_allgather([tall, tall])[1].shape == (rows * n, 0)
    assert hvd.reducescatter(tall).shape == (rows // n + (me < rows % n), 0)
    to_the_last = [0] * (n - 1) + [rows]
    expected = [rows if me == n - 1 else 0] * n
    for received, counts in (
        hvd.alltoall(tall, splits=to_the_last),
        hvd.synchronize(hvd.alltoall_async(tall, splits=to_the_last)),
        hvd.alltoall(tall.clone().requires_grad_(), splits=to_the_last),
    ):
        assert received.shape == (sum(expected), 0)
        assert counts.tolist() == expected
        assert counts.dtype == (torch.int64 if me == n - 1 else torch.int32)


def check_reducescatter() -> None:
    n, me = hvd.size(), hvd.rank()
    rows = 2 * n + 1  # rank 0 gets one more
    total = sum(mine(rows, rank=r) for r in range(n))
    assert isinstance(total, torch.Tensor)
    start = 0 if me == 0 else 2 * me + 1
    part = total[start : start + (3 if me == 0 else 2)]
    assert torch.equal(hvd.reducescatter(mine(rows), op=hvd.Sum), part)
    torch.testing.assert_close(hvd.reducescatter(mine(rows)), part / n)
    scaled = hvd.reducescatter(
        mine(rows), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0, name="scaled"
    )
    torch.testing.assert_close(scaled, part * 2)
    handle = hvd.reducescatter_async(mine(rows), op=hvd.Sum)
    assert torch.equal(hvd.synchronize(handle), part)
    narrow = hvd.reducescatter(mine(rows), op=hvd.Sum, compression=hvd.Compression.bf16)
    assert narrow.dtype == torch.float32
    both = hvd.grouped_reducescatter([mine(rows), mine(n).double()], op=hvd.Sum)
    assert torch.equal(both[0], part)
    assert both[1].dtype == torch.float64
    assert both[1].shape == (1, 2)
    again = hvd.synchronize(hvd.grouped_reducescatter_async([mine(rows)], op=hvd.Sum))
    assert torch.equal(again[0], part)


def check_gradient_of_reducescatter() -> None:
    n, me = hvd.size(), hvd.rank()
    for op, factor in ((hvd.Sum, float(n)), (hvd.Average, 1.0)):
        for grouped in (False, True):
            tensor = mine(n).requires_grad_()
            scattered = (
                hvd.grouped_reducescatter([tensor], op=op)[0]
                if grouped
                else hvd.reducescatter(tensor, op=op)
            )
            run_backward((scattered * (me + 1)).sum())
            assert tensor.grad is not None
            assert tensor.grad[:, 0].tolist() == [(r + 1) * factor for r in range(n)]


def check_grouped_allreduce() -> None:
    n = hvd.size()
    tensors = [mine(3), torch.full((2, 2, 2), hvd.rank() + 1.0)]
    first = sum(mine(3, rank=r) for r in range(n))
    expected = [first, torch.full((2, 2, 2), n * (n + 1) / 2)]

    def same(results: Any, factor: float = 1.0, kind: Any = list) -> None:
        assert type(results) is kind
        for result, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(result, wanted * factor)

    same(hvd.grouped_allreduce(tensors, op=hvd.Sum))
    same(hvd.grouped_allreduce(tensors, name="group"), 1 / n)
    handle = hvd.grouped_allreduce_async(iter(tensors), op=hvd.Sum)  # type: ignore[arg-type]
    same(hvd.synchronize(handle), kind=tuple)
    copies = [tensor.clone() for tensor in tensors]
    hvd.grouped_allreduce_(iter(copies), op=hvd.Sum)  # type: ignore[arg-type]
    same(copies)
    same(hvd.grouped_allreduce(tensors, op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0), 6)
    same(hvd.synchronize(hvd.grouped_allreduce_async(tensors, op=hvd.Sum)), kind=tuple)
    assert torch.equal(tensors[0], mine(3))
    places = [tensor.clone() for tensor in tensors]
    results = hvd.grouped_allreduce_(places, op=hvd.Sum)
    assert all(one is other for one, other in zip(results, places, strict=True))
    same(results, kind=tuple)
    places = [tensor.clone() for tensor in tensors]
    results = hvd.synchronize(hvd.grouped_allreduce_async_(places, op=hvd.Sum))
    assert results[0] is places[0]
    same(results, kind=tuple)
    half = hvd.grouped_allreduce(tensors, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert half[0].dtype == torch.float32
    with pytest.warns(DeprecationWarning, match="has been replaced") as warned:
        same(hvd.grouped_allreduce(tensors, average=False))
    assert warned[0].filename == __file__


def check_grouped_adasum() -> None:
    n = hvd.size()
    if n & (n - 1):
        return
    expected = combine_all([mine(3, rank=r) for r in range(n)])
    places = [mine(3), mine(3).double()]
    for results in (
        hvd.grouped_allreduce(places, op=hvd.Adasum),
        hvd.grouped_allreduce_(places, op=hvd.Adasum),
    ):
        torch.testing.assert_close(results[0], expected)
        assert results[1].dtype == torch.float64
    torch.testing.assert_close(places[0], expected)
    with pytest.raises(ValueError, match="floating-point"):
        hvd.grouped_allreduce([mine(3), torch.ones(2, dtype=torch.int32)], op=hvd.Adasum)


def check_grouped_allgather() -> None:
    n = hvd.size()
    tensors = [mine(hvd.rank() + 1), torch.full((2,), hvd.rank())]
    expected = [
        torch.cat([mine(r + 1, rank=r) for r in range(n)]),
        torch.arange(n).repeat_interleave(2),
    ]
    for results in (
        hvd.grouped_allgather(tensors),
        hvd.synchronize(hvd.grouped_allgather_async(tensors, name="gather")),
    ):
        assert isinstance(results, tuple)
        assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


def check_gradients_of_groups() -> None:
    n, me = hvd.size(), hvd.rank()
    tensors = [mine(2).requires_grad_(), torch.ones(3, requires_grad=True)]
    reduced = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="reduced")
    run_backward((me + 1) * (reduced[0].sum() + 2 * reduced[1].sum()))
    total = n * (n + 1) / 2
    assert tensors[0].grad is not None
    assert tensors[1].grad is not None
    assert tensors[0].grad[:, 0].tolist() == [total] * 2
    assert tensors[1].grad.tolist() == [2 * total] * 3
    ragged = torch.ones(me + 1, 2, requires_grad=True)
    gathered = hvd.grouped_allgather([ragged, torch.ones(1)], name="gathered")
    weights = torch.arange(float(len(gathered[0]))).unsqueeze(1)
    run_backward((gathered[0] * weights).sum())
    before = sum(range(1, me + 1))
    assert ragged.grad is not None
    assert ragged.grad[:, 0].tolist() == [float(before + i) for i in range(me + 1)]
    for gather in (hvd.allgather, lambda tensor: hvd.grouped_allgather([tensor])):
        with pytest.raises(hvd.HorovodInternalError, match="ALLGATHER a rank-zero tensor"):
            gather(torch.tensor(2.0))


def check_gradients_of_groups_over_a_process_set() -> None:
    members = part_of_set()
    if not members.included():
        return
    ragged = torch.ones(hvd.rank(), 2, requires_grad=True)
    gathered = hvd.grouped_allgather([ragged, torch.ones(1)], process_set=members)
    weights = torch.arange(float(len(gathered[0]))).unsqueeze(1) * hvd.rank()
    run_backward((gathered[0] * weights).sum())
    before, factor = sum(range(hvd.rank())), sum(members.ranks) / len(members.ranks)
    assert ragged.grad is not None
    assert ragged.grad[:, 0].tolist() == [(before + i) * factor for i in range(hvd.rank())]


def check_autograd_functions_take_horovods_arguments() -> None:
    n, everyone = hvd.size(), hvd.global_process_set
    factors = (1.0, 1.0)
    one: dict[Any, tuple[Any, ...]] = {
        mpi_ops.HorovodAllreduce: (None, None, hvd.Sum, *factors, everyone),
        mpi_ops.HorovodAllgather: (None, everyone),
        mpi_ops.HorovodBroadcast: (0, None, everyone),
        mpi_ops.HorovodAlltoall: (None, None, everyone),
        mpi_ops.HorovodReducescatter: (None, hvd.Sum, everyone, *factors),
    }
    expected = {
        "Allreduce": hvd.allreduce(mine(n), op=hvd.Sum),
        "Allgather": hvd.allgather(mine(n)),
        "Broadcast": hvd.broadcast(mine(n), 0),
        "Alltoall": hvd.alltoall(mine(n)),
        "Reducescatter": hvd.reducescatter(mine(n), op=hvd.Sum),
    }
    for (function, arguments), wanted in zip(one.items(), expected.values(), strict=True):
        tensor = mine(n).requires_grad_()
        result = function.apply(tensor, *arguments)
        assert torch.equal(result, wanted), function
        run_backward(result.sum())
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape
    several: dict[Any, tuple[Any, ...]] = {
        mpi_ops.HorovodGroupedAllreduce: (None, None, hvd.Sum, *factors, everyone),
        mpi_ops.HorovodGroupedAllgather: (None, everyone),
        mpi_ops.HorovodGroupedReducescatter: (None, hvd.Sum, everyone, *factors),
    }
    for function, arguments in several.items():
        tensor = mine(n).requires_grad_()
        results = function.apply(*arguments, tensor, mine(n))
        assert torch.equal(results[0], expected[function.__name__.rpartition("Grouped")[2]])
        run_backward(results[0].sum())
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape


def check_operations_over_a_process_set() -> None:
    members = part_of_set()
    n = len(members.ranks)
    if not members.included():
        with pytest.raises(ValueError, match="not a member of the provided process set"):
            hvd.allreduce(mine(2), process_set=members)
        return
    total = sum(mine(2, rank=r) for r in members.ranks)
    assert isinstance(total, torch.Tensor)
    assert torch.equal(hvd.allreduce(mine(2), op=hvd.Sum, process_set=members), total)
    torch.testing.assert_close(hvd.allreduce(mine(2), process_set=members), total / n)
    place = mine(2)
    hvd.allreduce_(place, op=hvd.Sum, process_set=members)
    assert torch.equal(place, total)
    assert torch.equal(hvd.broadcast(mine(2), 1, process_set=members), mine(2, rank=1))
    gathered = hvd.allgather(torch.tensor([hvd.rank()]), process_set=members)
    assert gathered.tolist() == members.ranks
    grouped = hvd.grouped_allreduce([mine(2)], op=hvd.Sum, process_set=members)
    assert torch.equal(grouped[0], total)
    assert hvd.alltoall(mine(n), process_set=members).shape == (n, 2)
    assert hvd.reducescatter(mine(n), process_set=members).shape == (1, 2)
    assert hvd.broadcast_object(hvd.rank(), root_rank=1, process_set=members) == 1
    sparse = torch.eye(2).to_sparse()
    summed = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum, process_set=members)()
    assert torch.equal(summed.to_dense(), torch.eye(2) * n)
    mean = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Average, process_set=members)()
    assert torch.equal(mean.to_dense(), torch.eye(2))
    hvd.barrier(process_set=members)
    tensor = torch.ones(2, requires_grad=True)
    run_backward((hvd.allreduce(tensor, process_set=members) * hvd.rank()).sum())
    assert tensor.grad is not None
    assert tensor.grad.tolist() == [sum(members.ranks) / n] * 2


def check_an_optimizer_over_a_process_set() -> None:
    members = part_of_set()
    for groups in (None, 1):
        weight = torch.nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([weight], lr=1.0), process_set=members, groups=groups
        )
        run_backward((weight * (hvd.rank() + 1)).sum())
        optimizer.step()
        mean = sum(r + 1 for r in members.ranks) / len(members.ranks)
        expected = -mean if members.included() else -(hvd.rank() + 1.0)
        assert weight.tolist() == [expected] * 2
        optimizer.zero_grad()


def check_join_with_uneven_data() -> None:
    for batch in range(hvd.rank() + 2):
        ranks = [r for r in range(hvd.size()) if r + 2 > batch]
        total = hvd.allreduce(torch.ones(3), op=hvd.Sum, name="uneven")
        assert total.tolist() == [float(len(ranks))] * 3
    assert hvd.join() == hvd.size() - 1


def check_mismatches_are_told_to_all_and_the_job_goes_on() -> None:
    last = hvd.rank() == hvd.size() - 1
    faults: tuple[Callable[[], Any], ...] = (
        lambda: hvd.allreduce(torch.ones(2 if last else 3), name="shape"),
        lambda: hvd.allreduce(torch.ones(2).to(torch.float64 if last else torch.float32), name="t"),
        lambda: hvd.broadcast(torch.ones(2), 0 if last else 1, name="root"),
        lambda: hvd.grouped_allreduce([torch.ones(2 if last else 3)], name="group"),
        lambda: hvd.reducescatter(torch.ones(4 if last else 3), name="scatter"),
    )
    for fault in faults:
        with pytest.raises(hvd.HorovodInternalError, match="Mismatched"):
            fault()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def check_what_cannot_be_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="register"):
        hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0]))
    with pytest.raises(TypeError, match="must be a ProcessSet"):
        hvd.allreduce(torch.ones(1), process_set=[0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not supported"):
        hvd.alltoall(torch.zeros(hvd.size(), dtype=torch.complex64))
