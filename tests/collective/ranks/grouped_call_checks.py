"""Groups of allreduces that the bindings run at once, or start, and what they leave."""

import os
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from horovod.torch.blocking import CALLS
from horovod.torch.started import STARTED


class Tagged(torch.Tensor):
    """A subclass, of which the bindings know nothing."""


def several(count: int = 3) -> list[torch.Tensor]:
    """Of unlike types and shapes; one has no elements."""
    kinds = (torch.float32, torch.int64, torch.bfloat16)
    shapes = ((2, 3), (0, 4), (5,), ())
    value = hvd.rank() + 1
    return [torch.full(shapes[i % 4], value + i, dtype=kinds[i % 3]) for i in range(count)]


def totals(count: int = 3) -> list[torch.Tensor]:
    every = range(1, hvd.size() + 1)
    return [
        torch.full_like(tensor, sum(value + i for value in every))
        for i, tensor in enumerate(several(count))
    ]


def assert_equal(results: Any, expected: list[torch.Tensor]) -> None:
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        assert torch.equal(result, wanted)


def check_results_of_groups() -> None:
    for count in (1, 3, 8, 40):  # of which the ranks' meeting has no room for the last
        own = several(count)
        results = hvd.grouped_allreduce(own, op=hvd.Sum)
        assert_equal(results, totals(count))
        assert_equal(own, several(count))
        assert_equal(hvd.grouped_allreduce(tuple(own), op=hvd.Sum), totals(count))
        places = hvd.grouped_allreduce_(own, op=hvd.Sum)
        assert all(place is tensor for place, tensor in zip(places, own, strict=True))
        assert_equal(own, totals(count))
    large = [torch.full((700_000,), hvd.rank() + 1.0), torch.ones(3)]
    total = hvd.size() * (hvd.size() + 1) / 2
    assert hvd.grouped_allreduce(large, op=hvd.Sum)[0].eq(total).all()


def check_several_groups_under_way() -> None:
    handles = [hvd.grouped_allreduce_async(several(count), op=hvd.Sum) for count in range(1, 30)]
    for count, handle in reversed(list(enumerate(handles, 1))):
        results = hvd.synchronize(handle)
        assert type(results) is tuple
        assert_equal(results, totals(count))


def check_a_list_may_change_while_its_tensors_are_on_their_way() -> None:
    own = several()
    handle = hvd.grouped_allreduce_async_(own, op=hvd.Sum)
    own.clear()
    assert_equal(hvd.synchronize(handle), totals())


def check_ranks_whose_bindings_leave_a_group_meet_the_others() -> None:
    for turn in range(10):
        own = several()
        if turn % hvd.size() == hvd.rank():
            own[0] = own[0].as_subclass(Tagged)
        assert_equal(hvd.grouped_allreduce(own, op=hvd.Sum), totals())
        own[0] = torch.full((3, 2), hvd.rank() + 1.0).t() if hvd.rank() == 0 else own[0]
        assert_equal(hvd.grouped_allreduce_(own, op=hvd.Sum), totals())


def check_unlike_groups_fail_on_all_ranks() -> None:
    last = hvd.rank() == hvd.size() - 1
    own = torch.ones(3)
    faults: tuple[list[torch.Tensor], ...] = (
        [own, torch.ones(2 if last else 4)],
        [own] * (3 if last else 2),
        [own, own.double() if last else own],
    )
    for group in faults:
        for reduce in (hvd.grouped_allreduce, hvd.grouped_allreduce_):
            with pytest.raises(hvd.HorovodInternalError, match="Mismatched"):
                reduce([each.clone() for each in group], name="group")
    assert_equal(hvd.grouped_allreduce(several(), op=hvd.Sum), totals())


def check_gradients_pass_through_groups() -> None:
    own = [torch.ones(3, requires_grad=True), torch.ones(2)]
    total: Any = hvd.grouped_allreduce(own, op=hvd.Sum)[0].sum()
    total.backward()
    assert own[0].grad is not None
    assert own[0].grad.eq(hvd.size()).all()


def check_what_the_bindings_leave_of_groups() -> None:
    own = torch.ones(2)
    left: list[tuple[Any, ...]] = [
        ([], None, None, 1.0, 1.0),
        (iter([own]), None, None, 1.0, 1.0),
        ([own, 1.0], None, None, 1.0, 1.0),
        ([own], 7, None, 1.0, 1.0),
        ([own], None, hvd.Adasum, 1.0, 1.0),
        ([own], None, None, 1, 1.0),
    ]
    for arguments in left:
        assert CALLS.now.grouped_allreduce(*arguments) is None
        to_start = (*arguments, 0)
        assert STARTED.now.grouped_allreduce_(*to_start) is None
    assert STARTED.now.grouped_allreduce([own], None, None, 1.0, 1.0, -1) is None
    with pytest.raises(ValueError, match="not supported"):
        hvd.grouped_allreduce([own, torch.zeros(2, dtype=torch.complex64)])
    with pytest.raises(ValueError, match="bool"):
        hvd.grouped_allreduce_([own, torch.ones(2, dtype=torch.bool)])
    assert_equal(hvd.grouped_allreduce(several(), op=hvd.Sum), totals())


def check_tensors_that_share_memory_are_reduced_once() -> None:
    def own(count: int) -> torch.Tensor:
        return torch.full((count,), hvd.rank() + 1.0)

    total = hvd.size() * (hvd.size() + 1) / 2
    for count in (8, 1_000, 100_000):
        for in_a_row in (False, True):
            twice, parts, empty = own(count), own(count), torch.ones(0)
            tensors = [
                twice, parts[: 2 * count // 3], twice, parts[count // 3 :], empty, empty,
            ]  # fmt: skip
            if in_a_row:
                hvd.grouped_allreduce_(tensors, op=hvd.Sum)
            else:
                hvd.synchronize(hvd.grouped_allreduce_async_(tensors, op=hvd.Sum))
            assert twice.tolist() == parts.tolist() == [total] * count
    same = own(8)
    assert_equal(hvd.grouped_allreduce([same, same], op=hvd.Min), [torch.ones(8)] * 2)


def check_a_fork_may_not_reduce_a_group() -> None:
    child = os.fork()
    if child == 0:
        try:
            for reduce in (hvd.grouped_allreduce, hvd.grouped_allreduce_async_):
                with pytest.raises(RuntimeError, match="is a fork of process"):
                    reduce(several())
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
