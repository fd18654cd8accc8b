"""Groups of arrays that are reduced at once."""

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import horovod.array as hvd


def reductions_in_place() -> list[Callable[[Any], Any]]:
    """Each reduces a group, and returns the results."""
    return [
        lambda arrays: hvd.grouped_allreduce_(arrays, op=hvd.Sum),
        lambda arrays: hvd.synchronize(hvd.grouped_allreduce_async_(arrays, op=hvd.Sum)),
    ]


def own(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.float64) + hvd.rank()


def total(count: int) -> Any:
    return (np.arange(count) * hvd.size() + sum(range(hvd.size()))).tolist()


def check_arrays_that_share_memory_are_reduced_once() -> None:
    for count in (8, 1_000, 100_000):
        for reduce in reductions_in_place():
            twice, parts, steps = own(count), own(count), own(count)
            group = [
                twice, parts[count // 3 :], np.empty(0), twice, parts[: 2 * count // 3], steps,
                steps[::2],
            ]  # fmt: skip
            results = reduce(group)
            assert all(result is each for result, each in zip(results, group, strict=True))
            assert twice.tolist() == parts.tolist() == steps.tolist() == total(count)


def check_arrays_of_every_kind_that_share_memory_are_reduced_once() -> None:
    for reduce in reductions_in_place():
        numbers = array.array("d", own(10))
        view = memoryview(numbers)
        buffer = hvd.shared_empty(10, "float64")
        inside = np.from_dlpack(buffer)
        inside[:] = own(10)
        reduce([numbers, view[2:], buffer, inside[:7], buffer, np.frombuffer(view)])
        assert numbers.tolist() == inside.tolist() == total(10)


def check_results_of_groups_that_share_memory() -> None:
    twice = own(8)
    for found in hvd.grouped_allreduce([twice, twice[:]], op=hvd.Sum):
        assert found.tolist() == total(8)
    assert twice.tolist() == own(8).tolist()


def check_an_array_of_a_group_that_cannot_be_written_leaves_the_others() -> None:
    for reduce in reductions_in_place():
        values = own(4)
        with pytest.raises(ValueError, match="read-only"):
            reduce([values, b"bytes"])
        assert values.tolist() == own(4).tolist()


def check_groups_may_be_any_iterable() -> None:
    for reduce in reductions_in_place():
        group = [own(3), own(5)]
        results = reduce(each for each in group)
        assert [result.tolist() for result in results] == [total(3), total(5)]
        assert all(result is each for result, each in zip(results, group, strict=True))
    arrays: Any = (own(count) for count in (3, 5))
    sums = hvd.grouped_allreduce(arrays, op=hvd.Sum)
    assert [each.tolist() for each in sums] == [total(3), total(5)]
    arrays = (np.array([hvd.rank() + i]) for i in range(2))
    gathered = hvd.grouped_allgather(arrays)
    assert [each[0] for each in gathered] == [0, 1]
    arrays = (np.ones(hvd.size()) for _ in range(2))
    parts = hvd.grouped_reducescatter(arrays, op=hvd.Sum)
    assert [each.tolist() for each in parts] == [[hvd.size()]] * 2
