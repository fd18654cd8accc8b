"""Results in memory that the caller gives: `output=` of horovod.torch and horovod.array."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import horovod.array as hvd_array
import horovod.torch as hvd
from horovod.torch.compression import Compression

RANK, SIZE = hvd.rank(), hvd.size()
# By collective: the blocking form, the asynchronous one, further arguments, rows of the result for
# as many rows of every rank.
FORMS: dict[str, tuple[Callable[..., Any], Callable[..., int], dict[str, Any], Any]] = {
    "allgather": (hvd.allgather, hvd.allgather_async, {}, lambda rows: rows * SIZE),
    "alltoall": (hvd.alltoall, hvd.alltoall_async, {}, lambda rows: rows),
    "reducescatter": (
        hvd.reducescatter,
        hvd.reducescatter_async,
        {"op": hvd.Sum},
        lambda rows: rows // SIZE + (rows % SIZE > RANK),
    ),
}
DTYPES = (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.uint8)


def check_outputs_get_what_new_tensors_do() -> None:
    shapes = [(SIZE,), (2 * SIZE, 3), (SIZE, 4000), (0, 2), (3 * SIZE, 0)]
    for (name, form), dtype, shape in itertools.product(FORMS.items(), DTYPES, shapes):
        blocking, start, options, rows = form
        tensor = (torch.arange(np.prod(shape)).reshape(shape) % 5 + RANK).to(dtype)
        expected = blocking(tensor, **options)
        for given in (None, f"{name}.{dtype}.{shape}"):
            output = torch.zeros(rows(shape[0]), *shape[1:], dtype=dtype)
            assert blocking(tensor, name=given, output=output, **options) is output
            assert torch.equal(output, expected)
            output.zero_()
            result = hvd.synchronize(start(tensor, name=given, output=output, **options))
            if name == "alltoall":
                result, received = result
                assert received.tolist() == [shape[0] // SIZE] * SIZE
            assert result is output
            assert torch.equal(output, expected)


def check_an_output_is_each_ranks_own_affair() -> None:
    tensor = torch.full((SIZE + 1, 2), float(RANK))
    for turn in range(2 * SIZE):
        output = torch.empty(SIZE * (SIZE + 1), 2) if turn % SIZE == RANK else None
        gathered = hvd.allgather(tensor, output=output)
        assert output is None or gathered is output
        assert gathered[:: SIZE + 1, 0].tolist() == list(range(SIZE))


def check_splits_are_returned_beside_an_output() -> None:
    # Rank r sends r + 1 rows to everybody, so that 1 + 2 + ... come to everybody.
    tensor = torch.full((SIZE * (RANK + 1),), float(RANK))
    rows = [rank + 1 for rank in range(SIZE)]
    splits = [RANK + 1] * SIZE
    for way in (hvd.alltoall, lambda *a, **k: hvd.synchronize(hvd.alltoall_async(*a, **k))):
        output = torch.empty(sum(rows))
        parts, received = way(tensor, splits, output=output)
        assert parts is output
        assert received.tolist() == rows
        assert output.tolist() == [float(rank) for rank in range(SIZE) for _ in range(rank + 1)]


def check_outputs_of_another_number_of_rows() -> None:
    tensor = torch.ones(SIZE)
    for blocking, start, options, rows in FORMS.values():
        for more in (-1, 1):
            if rows(SIZE) + more < 0:
                continue
            output = torch.zeros(rows(SIZE) + more)
            with pytest.raises(ValueError, match="ranks' tensors make a result of shape"):
                blocking(tensor, output=output, **options)
            handle = start(tensor, output=output, **options)
            with pytest.raises(ValueError, match="ranks' tensors make a result of shape"):
                hvd.synchronize(handle)
            assert not output.any()
    # One rank's mistake does not concern the others.
    output = torch.empty(SIZE + (RANK == 0))
    if RANK == 0:
        with pytest.raises(ValueError, match="result is lost on this rank"):
            hvd.alltoall(tensor, output=output)
    else:
        assert hvd.alltoall(tensor, output=output).tolist() == [1.0] * SIZE


def check_what_no_result_can_lie_in_is_refused() -> None:
    tensor = torch.ones(SIZE, 2)
    refused: list[tuple[object, type[Exception], str]] = [
        ([0.0], TypeError, "torch tensors, not on list"),
        (torch.empty(SIZE, 2, dtype=torch.float64), ValueError, "output is of type float64"),
        (torch.empty(SIZE, 3), ValueError, "in more than the first dimension"),
        (torch.empty(SIZE), ValueError, "in more than the first dimension"),
        (torch.empty(2, SIZE * SIZE).t(), ValueError, "output is required to be contiguous"),
        (torch.empty(SIZE, 2, requires_grad=True), ValueError, "must not need a gradient"),
        (tensor, ValueError, "output shares memory with the tensor"),
        (torch.empty(2, device="meta"), ValueError, "device meta has no data"),
    ]
    for (blocking, start, options, _), (output, kind, text) in itertools.product(
        FORMS.values(), refused
    ):
        for form in (blocking, start):
            with pytest.raises(kind, match=text):
                form(tensor, output=output, **options)
    for blocking, _, options, rows in FORMS.values():
        output = torch.empty(rows(SIZE), 2)
        wanted = torch.ones(SIZE, 2, requires_grad=True)
        with pytest.raises(ValueError, match="automatic differentiation"):
            blocking(wanted, output=output, **options)
        with torch.no_grad():
            assert blocking(wanted, output=output, **options) is output
    # Whatever was refused has not begun anywhere.
    assert hvd.allgather(tensor).shape == (SIZE * SIZE, 2)


def check_outputs_of_other_ways() -> None:
    own = torch.full((SIZE, 2), 1.5)
    output = torch.empty(1, 2)
    compressed = hvd.reducescatter(own, compression=Compression.fp16, op=hvd.Sum, output=output)
    assert compressed is output
    assert output.tolist() == [[1.5 * SIZE] * 2]
    buffer = torch.zeros(SIZE + 4, 2)
    inner = buffer[2 : 2 + SIZE]
    assert hvd.alltoall(own, output=inner) is inner
    assert buffer[:, 0].tolist() == [0, 0, *[1.5] * SIZE, 0, 0]
    one = hvd.add_process_set([0])
    try:
        if RANK == 0:
            alone = torch.empty(SIZE, 2)
            assert hvd.allgather(own, process_set=one, output=alone) is alone
            assert torch.equal(alone, own)
    finally:
        hvd.remove_process_set(one)


def check_arrays_of_other_kinds() -> None:
    own = np.arange(2 * SIZE, dtype=np.float32).reshape(SIZE, 2) + RANK
    for dense in (True, False):
        gathered = np.zeros((SIZE * SIZE, 2), np.float32, order="C" if dense else "F")
        assert hvd_array.allgather(own, output=gathered) is gathered
        np.testing.assert_array_equal(gathered, hvd_array.allgather(own))
        exchanged = np.zeros((SIZE, 2), np.float32, order="C" if dense else "F")
        assert hvd_array.alltoall(own, output=exchanged) is exchanged
        np.testing.assert_array_equal(exchanged, hvd_array.alltoall(own))
    view = memoryview(bytearray(8)).cast("f")
    share = hvd_array.reducescatter(memoryview(own.tobytes()).cast("f"), op=hvd.Sum, output=view)
    assert share is view
    assert share.tolist() == hvd_array.reducescatter(own, op=hvd.Sum).ravel().tolist()
    with pytest.raises(ValueError, match="result is lost on this rank"):
        hvd_array.allgather(own, output=np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="output shares memory"):
        hvd_array.alltoall(own, output=own)
    frozen = np.zeros((SIZE, 2), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        hvd_array.alltoall(own, output=frozen)
