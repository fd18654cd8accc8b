"""Collectives on NumPy arrays, `array.array` and buffers, against NumPy's own results."""

import array
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import horovod.array as hvd
from horovod._session import SESSION

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64")
OPS: dict[int, Callable[..., Any]] = {
    hvd.Sum: np.add.reduce,
    hvd.Min: np.minimum.reduce,
    hvd.Max: np.maximum.reduce,
    hvd.Product: np.multiply.reduce,
}
SHAPES = ((), (1,), (7,), (3, 5), (0,), (2, 0, 3), (100_003,))


def contributions(shape: tuple[int, ...], dtype: str) -> list[np.ndarray[Any, Any]]:
    """What the ranks contribute: small whole numbers, so that every order of adding is exact."""
    generator = np.random.default_rng(7)
    low, high = (0, 4) if dtype.startswith("u") else (-3, 4)
    whole = [generator.integers(low, high, shape) for _ in range(hvd.size())]
    return [np.asarray(numbers, dtype) for numbers in whole]


def check_transport_is_the_forced_one() -> None:
    assert SESSION.member.runtime.transport == os.environ["HOROVOD_TRANSPORT"]


def ran_at_once(call: Callable[[], object]) -> bool:
    """Whether a call, repeated until the ranks come to it together, gets by without a thread."""
    runtime = SESSION.member.runtime
    for _ in range(50):
        before = runtime.fast_operations
        call()
        if hvd.allreduce(np.array(runtime.fast_operations - before), op=hvd.Min):
            return True
    return False


def check_blocking_calls_run_at_once() -> None:
    own = np.ones((hvd.size(), 3))
    place = np.empty_like(own)
    calls: list[Callable[[], object]] = [
        lambda: hvd.allreduce(own),
        lambda: hvd.allreduce_(own, name="at.once"),
        lambda: hvd.broadcast(own, 0),
        lambda: hvd.broadcast_(own, 1, "at.once"),
        lambda: hvd.allgather(own),
        lambda: hvd.alltoall(own),
        lambda: hvd.alltoall(own, output=place),
        lambda: hvd.alltoall(own, [1] * hvd.size(), output=place),
        lambda: hvd.reducescatter(own, op=hvd.Sum),
        hvd.barrier,
    ]
    for call in calls:
        assert ran_at_once(call) == ("mpi" not in SESSION.member.runtime.transport)


def check_ranks_are_all_there() -> None:
    assert hvd.allgather(np.array([hvd.rank()])).tolist() == list(range(hvd.size()))
    assert hvd.local_rank() == hvd.rank()
    assert hvd.local_size() == hvd.size()
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_homogeneous()


def check_allreduce_of_every_type_op_and_shape() -> None:
    for dtype in INTEGERS + FLOATS:
        for shape in SHAPES:
            ours = contributions(shape, dtype)
            for op, reduce in OPS.items():
                result = hvd.allreduce(ours[hvd.rank()], op=op)
                expected = reduce(ours, axis=0).astype(dtype)
                assert result.dtype == expected.dtype
                np.testing.assert_array_equal(result, expected, f"{dtype} {shape} {op}")


def check_average_is_the_default() -> None:
    for dtype in FLOATS:
        result = hvd.allreduce(np.full(3, hvd.rank(), dtype))
        np.testing.assert_allclose(result, np.full(3, (hvd.size() - 1) / 2), rtol=1e-3)


def check_average_of_integers_is_truncated() -> None:
    total = sum(range(hvd.size())) + hvd.size() - 1
    value = np.array([hvd.rank() + (hvd.rank() > 0)], np.int32)
    assert hvd.allreduce(value).tolist() == [total // hvd.size()]
    assert hvd.allreduce(-value).tolist() == [-(total // hvd.size())]


def check_booleans() -> None:
    mine = np.array([True, False, hvd.rank() == 0])
    for op, expected in (
        (hvd.Sum, [True, False, True]),
        (hvd.Max, [True, False, True]),
        (hvd.Min, [True, False, False]),
        (hvd.Product, [True, False, False]),
    ):
        result = hvd.allreduce(mine, op=op)
        assert result.dtype == np.bool_
        assert result.tolist() == expected
    with pytest.raises((ValueError, hvd.HorovodInternalError)):
        hvd.allreduce(mine, op=hvd.Average)


def check_factors_scale_before_and_after() -> None:
    ones = np.ones(4, np.float32)
    result = hvd.allreduce(ones, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert result.tolist() == [2.0 * hvd.size()] * 4


def check_in_place() -> None:
    values = np.full(5, hvd.rank() + 1, np.int64)
    assert hvd.allreduce_(values, op=hvd.Sum) is values
    total = sum(range(1, hvd.size() + 1))
    assert values.tolist() == [total] * 5


def check_in_place_on_every_second_element() -> None:
    whole = np.zeros(6)
    part = whole[::2]
    part[:] = 1
    hvd.allreduce_(part, op=hvd.Sum)
    assert whole.tolist() == [hvd.size(), 0] * 3


def check_in_place_refuses_windows_that_overlap() -> None:
    windows = np.lib.stride_tricks.as_strided(np.zeros(4), (3, 2), (8, 8))
    bytes_apart = np.lib.stride_tricks.as_strided(np.zeros(4, np.int16), (3,), (1,))
    for each in (windows, bytes_apart):
        with pytest.raises(ValueError, match="are one in memory"):
            hvd.broadcast_(each, 0)
    apart = np.zeros((4, 6))[::-2, ::3]
    assert hvd.allreduce_(apart, op=hvd.Sum).shape == (2, 2)


def check_in_place_refuses_what_cannot_be_written() -> None:
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        hvd.allreduce_(frozen)
    with pytest.raises(ValueError, match="read-only"):
        hvd.broadcast_(b"bytes", 0)
    for call in (
        lambda: hvd.allreduce_(np.mean([1.0, 2.0])),
        lambda: hvd.allreduce_async_(np.float32(1)),
        lambda: hvd.broadcast_(np.int64(3), 0),
        lambda: hvd.grouped_allreduce_([np.zeros(()), np.bool_(1)], op=hvd.Sum),
        lambda: hvd.allgather(np.ones(1), output=np.float64(1)),
    ):
        with pytest.raises(ValueError, match="read-only"):
            call()


def check_numpy_scalars_are_reduced_into_new_arrays() -> None:
    assert hvd.allreduce(np.float64(hvd.rank()), op=hvd.Max) == hvd.size() - 1
    assert hvd.broadcast(np.int64(hvd.rank()), 1) == 1
    place = np.array(float(hvd.rank()))
    assert hvd.allreduce_(place, op=hvd.Max) is place
    assert place == hvd.size() - 1


def check_transposed_input() -> None:
    matrix = np.arange(6.0).reshape(2, 3).T
    result = hvd.allreduce(matrix, op=hvd.Max)
    assert np.array_equal(result, matrix)
    assert np.array_equal(hvd.allgather(matrix)[:3], matrix)


def check_input_is_left_alone() -> None:
    values = np.full(3, float(hvd.rank()))
    hvd.allreduce(values, op=hvd.Sum)
    hvd.broadcast(values, 0)
    assert values.tolist() == [hvd.rank()] * 3


def check_allgather_of_ragged_arrays() -> None:
    for dtype in (*INTEGERS, *FLOATS, "bool"):
        mine = np.full((hvd.rank(), 2), hvd.rank(), dtype)  # rank 0 has no rows at all
        expected = np.concatenate([np.full((r, 2), r, dtype) for r in range(hvd.size())])
        result = hvd.allgather(mine)
        assert result.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(result, expected)


def check_allgather_of_nothing_at_all() -> None:
    assert hvd.allgather(np.empty((0, 3), np.float32)).shape == (0, 3)


def check_results_can_be_written_and_outlive_the_operation() -> None:
    gathered = hvd.allgather(np.array([hvd.rank()]))
    hvd.allgather(np.arange(1000.0))
    gathered += 1
    assert gathered.tolist() == list(range(1, hvd.size() + 1))


def check_broadcast_from_every_root() -> None:
    for root in range(hvd.size()):
        for dtype in (*INTEGERS, *FLOATS, "bool"):
            mine = np.asarray(hvd.rank() + np.arange(4), dtype)
            expected = np.asarray(root + np.arange(4), dtype)
            np.testing.assert_array_equal(hvd.broadcast(mine, root), expected)
            assert hvd.broadcast_(mine, root) is mine
            np.testing.assert_array_equal(mine, expected)


def check_large_arrays() -> None:
    values = np.full(3_000_001, hvd.rank() + 1, np.float32)
    hvd.allreduce_(values, op=hvd.Sum)
    assert np.all(values == sum(range(1, hvd.size() + 1)))
    rows = hvd.allgather(np.full((200_000 + hvd.rank(), 3), hvd.rank(), np.int16))
    assert len(rows) == sum(200_000 + r for r in range(hvd.size()))


def check_array_array_stays_one() -> None:
    for code in "bBhilqfd":
        mine = array.array(code, [1, 2, hvd.rank()])
        result = hvd.allreduce(mine, op=hvd.Max)
        assert isinstance(result, array.array)
        assert result == array.array(code, [1, 2, hvd.size() - 1])
        everyone = array.array(code, [1, 2, 0])
        for rank in range(1, hvd.size()):
            everyone += array.array(code, [1, 2, rank])
        assert hvd.allgather(mine) == everyone
        assert hvd.broadcast_(mine, 0) == array.array(code, [1, 2, 0])


def check_buffers() -> None:
    mine = bytearray([hvd.rank(), 9])
    result = hvd.allreduce(mine, op=hvd.Sum)
    assert isinstance(result, hvd.Buffer)
    assert bytes(result) == bytes([sum(range(hvd.size())) % 256, 9 * hvd.size() % 256])
    assert hvd.broadcast_(mine, hvd.size() - 1) is mine
    assert mine == bytearray([hvd.size() - 1, 9])
    matrix = memoryview(bytes(range(6))).cast("B", (2, 3))
    assert hvd.allgather(matrix).shape == (2 * hvd.size(), 3)
    every_second = memoryview(bytearray(range(6)))[::2]
    assert bytes(hvd.allreduce(every_second, op=hvd.Max)) == bytes([0, 2, 4])
    with pytest.raises(ValueError, match="contiguous"):
        hvd.allreduce_(every_second)


def check_arrays_behind_a_header_of_odd_length() -> None:
    """In place too; they are not aligned for their type."""
    total = float(sum(range(1, hvd.size() + 1)))
    for make in (
        lambda memory: np.frombuffer(memory, np.float32, offset=1),
        lambda memory: memoryview(memory)[1:].cast("f"),
    ):
        memory = bytearray(b"h") + np.full(5, hvd.rank() + 1, np.float32).tobytes()
        mine = make(memory)
        assert memoryview(hvd.allreduce(mine, op=hvd.Sum)).tolist() == [total] * 5
        assert hvd.allgather(mine).shape == (5 * hvd.size(),)
        assert hvd.allreduce_(mine, op=hvd.Sum) is mine
        assert np.frombuffer(bytes(memory[1:]), np.float32).tolist() == [total] * 5
        assert memory[:1] == b"h"


class Exporter:
    """Something that speaks DLPack and nothing else."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


class Namespaced(Exporter):
    """The same with an array namespace: NumPy's."""

    def __array_namespace__(self) -> Any:
        return np


def check_buffers_in_column_order() -> None:
    matrix: Any = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    result = hvd.allreduce(memoryview(matrix), op=hvd.Max)
    assert memoryview(result).tolist() == matrix.tolist()
    with pytest.raises(ValueError, match="required to be contiguous"):
        hvd.allreduce_(memoryview(matrix))


def check_dlpack_gives_buffers() -> None:
    result = hvd.allreduce(Exporter(np.full((2, 2), hvd.rank(), np.float32)), op=hvd.Max)
    assert isinstance(result, hvd.Buffer)
    assert (result.shape, result.dtype) == ((2, 2), "float32")
    assert np.from_dlpack(result).tolist() == [[hvd.size() - 1] * 2] * 2


def check_dlpack_gives_arrays_of_its_namespace() -> None:
    mine = Namespaced(np.full(3, hvd.rank()))
    for result in (
        hvd.allreduce(mine, op=hvd.Min),
        hvd.broadcast(mine, 0),
    ):
        assert isinstance(result, np.ndarray)
        assert result.tolist() == [0, 0, 0]
    assert hvd.allgather(mine).tolist() == [r for r in range(hvd.size()) for _ in range(3)]
    assert hvd.broadcast_(mine, hvd.size() - 1) is mine
    assert mine.values.tolist() == [hvd.size() - 1] * 3


def check_dlpack_must_be_contiguous() -> None:
    with pytest.raises(ValueError, match="Tensor is required to be contiguous"):
        hvd.allreduce(Exporter(np.zeros(6)[::2]))


def check_what_is_no_array_is_refused() -> None:
    for other in (3.0, [1, 2], None):
        with pytest.raises(TypeError, match="is no array"):
            hvd.allreduce(other)
    for value in (np.zeros(2, complex), np.array(["a"]), np.zeros(2, np.uint32)):
        with pytest.raises(ValueError, match=r"Tensor type .* is not supported\."):
            hvd.allreduce(value)
    with pytest.raises(ValueError, match="byte order"):
        hvd.allreduce(np.zeros(2, ">f4"))
    with pytest.raises(ValueError, match="Tensor type I is not supported"):
        hvd.allreduce(array.array("I", [1]))


def check_names_may_come_in_any_order() -> None:
    names = [f"tensor {i}" for i in range(20)]
    order = names if hvd.rank() % 2 == 0 else names[::-1]
    handles = {
        name: hvd.allreduce_async(np.array([float(names.index(name))]), name=name, op=hvd.Sum)
        for name in order
    }
    for name in sorted(names):
        expected = names.index(name) * hvd.size()
        assert hvd.synchronize(handles[name]).tolist() == [expected]


def check_kinds_number_their_unnamed_operations_apart() -> None:
    """Two kinds started in unlike order still meet, as each has numbers of its own."""
    values = np.array([float(hvd.rank())])
    starts = [
        lambda: hvd.allreduce_async(values, op=hvd.Max),
        lambda: hvd.broadcast_async(values, 0),
        lambda: hvd.allgather_async(values),
    ]
    order = range(3) if hvd.rank() == 0 else reversed(range(3))
    handles = {index: starts[index]() for index in order}
    assert hvd.synchronize(handles[0]).tolist() == [hvd.size() - 1]
    assert hvd.synchronize(handles[1]).tolist() == [0]
    assert hvd.synchronize(handles[2]).tolist() == list(range(hvd.size()))


def check_poll_and_handles() -> None:
    handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).tolist() == [hvd.size()] * 3
    assert hvd.synchronize(handle) is None
    with pytest.raises(ValueError, match="was not created or has been cleared"):
        hvd.poll(handle)


def check_threads_may_wait_for_results_of_their_own() -> None:
    results: dict[int, float] = {}

    def work(index: int) -> None:
        for turn in range(20):
            values = np.array([float(index)])
            results[index] = float(
                hvd.allreduce(values, name=f"thread {index} turn {turn}", op=hvd.Sum)[0]
            )

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: float(i * hvd.size()) for i in range(4)}


def failure_of(operation: Callable[[], Any]) -> str:
    with pytest.raises(hvd.HorovodInternalError) as failure:
        operation()
    return str(failure.value)


def check_mismatches_fail_alike_everywhere_and_the_job_goes_on() -> None:
    odd = hvd.rank() == hvd.size() - 1
    one, two = np.ones(2, np.float32), np.ones(3, np.float32)
    operations: dict[str, Callable[[], Any]] = {
        "Mismatched data types": lambda: hvd.allreduce(one.astype("f8") if odd else one, name="a"),
        "Mismatched ALLREDUCE tensor shapes": lambda: hvd.allreduce(two if odd else one, name="b"),
        "Mismatched reduction operation": lambda: hvd.allreduce(
            one, name="c", op=hvd.Min if odd else hvd.Max
        ),
        "Mismatched prescale and/or postscale factors": lambda: hvd.allreduce(
            one, name="d", prescale_factor=2.0 if odd else 1.0
        ),
        "Mismatched BROADCAST root ranks": lambda: hvd.broadcast(one, int(odd), name="e"),
        "Mismatched ALLGATHER tensor shapes": lambda: hvd.allgather(
            one.reshape(1, 2) if odd else two.reshape(1, 3), name="f"
        ),
    }
    for text, operation in operations.items():
        message = failure_of(operation)
        assert text in message
        assert len(set(hvd.allgather_object(message))) == 1
    assert hvd.allreduce(one, name="a", op=hvd.Sum).tolist() == [hvd.size()] * 2


def check_allgather_of_a_scalar_is_refused() -> None:
    assert "rank-zero tensor" in failure_of(lambda: hvd.allgather(np.array(1.0)))


def check_adasum() -> None:
    unit = np.eye(hvd.size())[hvd.rank()]
    if hvd.size() & (hvd.size() - 1):
        with pytest.raises(NotImplementedError, match="non-power of 2 ranks"):
            hvd.allreduce(unit, op=hvd.Adasum)
        with pytest.raises(NotImplementedError, match="non-power of 2 ranks"):
            hvd.grouped_allreduce([unit], op=hvd.Adasum)
        return
    assert hvd.allreduce(unit, op=hvd.Adasum).tolist() == [1.0] * hvd.size()
    same = np.arange(5_000, dtype=np.float32)
    for found in hvd.grouped_allreduce([same, same], op=hvd.Adasum):
        np.testing.assert_allclose(found, same)
    with pytest.raises(ValueError, match="floating-point tensors, not int64"):
        hvd.allreduce(np.arange(3), op=hvd.Adasum)


def check_a_reduction_may_be_a_number_of_numpys() -> None:
    op: Any = np.int64(hvd.Sum)
    assert hvd.allreduce(np.ones(2), op=op).tolist() == [hvd.size()] * 2


def check_bad_arguments_are_refused_at_once() -> None:
    one = np.ones(2)
    with pytest.raises(ValueError, match="root"):
        hvd.broadcast(one, hvd.size())
    with pytest.raises(ValueError, match="is not a reduction"):
        hvd.allreduce(one, op=99)
    with pytest.raises(NotImplementedError, match="Adasum is an allreduce's"):
        hvd.reducescatter(one, op=hvd.Adasum)
    with pytest.raises(ValueError, match="does not exist, or has not been registered"):
        hvd.allreduce(one, process_set=hvd.ProcessSet([0]))


def check_a_name_in_flight_is_refused() -> None:
    """The last rank starts only when the others have seen the refusal."""
    one = np.ones(2)
    if hvd.rank() < hvd.size() - 1:
        handle = hvd.allreduce_async(one, name="same", op=hvd.Sum)
        with pytest.raises(ValueError, match="same name as another tensor"):
            hvd.allreduce_async(one, name="same", op=hvd.Sum)
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.allreduce_async(one, name="same", op=hvd.Sum)
    assert hvd.synchronize(handle).tolist() == [hvd.size()] * 2


def check_objects() -> None:
    thing = {"rank": hvd.rank(), "nested": [(1, 2.5, "é"), None, b"\0" * 70_000]}
    for root in range(hvd.size()):
        received = hvd.broadcast_object(thing, root, name=f"thing {root}")
        assert received == {**thing, "rank": root}
    assert hvd.broadcast_object(None) is None
    lengths = hvd.allgather_object("x" * hvd.rank())
    assert lengths == ["x" * rank for rank in range(hvd.size())]


def check_objects_that_cannot_be_pickled_fail_everywhere() -> None:
    locked = threading.Lock()
    expected: type[Exception] = TypeError if hvd.rank() == 0 else hvd.HorovodInternalError
    with pytest.raises(expected):
        hvd.broadcast_object(locked if hvd.rank() == 0 else None)
    with pytest.raises(expected):
        hvd.allgather_object(locked if hvd.rank() == 0 else None)
    assert hvd.broadcast_object(hvd.rank()) == 0


def check_alltoall() -> None:
    n, me = hvd.size(), hvd.rank()
    for dtype in (*INTEGERS, *FLOATS, "bool"):
        # Rank a sends (a + b) % 3 rows to rank b, and keeps one row more than all get.
        rows = [[(a + b) % 3 for b in range(n)] for a in range(n)]
        mine = [np.full((count, 2), 10 * me + to) for to, count in enumerate(rows[me])]
        whole = np.concatenate([*mine, np.zeros((1, 2))]).astype(dtype)
        received, splits = hvd.alltoall(whole, splits=rows[me])
        assert list(splits) == [rows[a][me] for a in range(n)]
        expected = np.concatenate([np.full((rows[a][me], 2), 10 * a + me) for a in range(n)])
        assert received.dtype == whole.dtype
        np.testing.assert_array_equal(received, expected.astype(dtype))
    even = np.arange(2 * n) + 100 * me
    got = hvd.alltoall(even)
    assert got.tolist() == [100 * a + 2 * me + i for a in range(n) for i in range(2)]


def check_alltoall_splits_are_whole_numbers() -> None:
    n = hvd.size()
    for splits in (np.ones(n), np.ones(n, bool), np.ones((n, 1), int), [1.0] * n, [True] * n, 1):
        with pytest.raises(ValueError, match="expects splits to be a list of whole numbers"):
            hvd.alltoall(np.zeros(n), splits=splits)
    for good in (np.ones(n, np.int32), array.array("q", [1] * n), (1,) * n):
        assert list(hvd.alltoall(np.zeros(n), splits=good)[1]) == [1] * n


def check_alltoall_splits_must_fit() -> None:
    n = hvd.size()
    with pytest.raises(ValueError, match="Sum of splits entries is greater than the first"):
        hvd.alltoall(np.zeros(2), splits=[3] + [0] * (n - 1))
    with pytest.raises(ValueError, match="Number of entries in splits does not equal number of"):
        hvd.alltoall(np.zeros(2), splits=[1] * (n + 1))
    with pytest.raises(ValueError, match="not an even multiple of the number of workers"):
        hvd.alltoall(np.zeros(n + 1))
    with pytest.raises(ValueError, match="negative"):
        hvd.alltoall(np.zeros(n), splits=[-1] * n)
    assert hvd.alltoall(np.zeros((0, 3))).shape == (0, 3)


def check_reducescatter_of_every_type_and_op() -> None:
    n, me = hvd.size(), hvd.rank()
    for dtype in INTEGERS + FLOATS:
        for shape in ((n,), (2 * n + 1, 3), (1,), (0, 2), (5_003, 7)):
            ours = contributions(shape, dtype)
            begin = sum(shape[0] // n + (r < shape[0] % n) for r in range(me))
            end = begin + shape[0] // n + (me < shape[0] % n)
            for op, reduce in OPS.items():
                result = hvd.reducescatter(ours[me], op=op)
                expected = reduce(ours, axis=0).astype(dtype)[begin:end]
                assert result.dtype == expected.dtype
                np.testing.assert_array_equal(result, expected, f"{dtype} {shape} {op}")
    ones = np.ones((n, 2), np.float32)
    assert hvd.reducescatter(ones).tolist() == [[1.0, 1.0]]
    scaled = hvd.reducescatter(ones, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert scaled.tolist() == [[2.0 * n] * 2]
