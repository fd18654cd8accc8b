"""Tensors in memory that all ranks of a host map, against PyTorch's own results."""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import horovod.array as hvd_array
import horovod.torch as hvd
from horovod._session import SESSION

SHARES = os.environ["HOROVOD_TRANSPORT"] == "shm"
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
OPS: dict[int, Callable[..., torch.Tensor]] = {
    hvd.Sum: torch.sum,
    hvd.Max: torch.amax,
    hvd.Min: torch.amin,
    hvd.Product: torch.prod,
}


def mapped() -> int:
    return SESSION.member.runtime.mapped_operations


def whole_numbers(count: int, seed: int) -> torch.Tensor:
    """One row for each rank; every order of adding them is exact in every type."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 3, (hvd.size(), count), generator=generator)


def wait_by_asking(handle: int) -> None:
    """Without coming to where small tensors are copied."""
    while not hvd.poll(handle):
        pass
    hvd.synchronize(handle)


def reduce_asynchronously(tensor: torch.Tensor, op: int) -> Any:
    return hvd.synchronize(hvd.allreduce_async_(tensor, op=op))


def check_adaptive_sums_are_made_elsewhere() -> None:
    if hvd.size() & (hvd.size() - 1):
        return
    before = mapped()
    for size in (hvd.size(), 50_000):
        tensor = hvd.shared_empty(size)
        tensor[hvd.rank()] = 1
        hvd.allreduce_(tensor, op=hvd.Adasum, name=f"adaptive {size}")
        assert tensor.sum() == hvd.size()
        wait_by_asking(hvd.allreduce_async_(tensor, op=hvd.Adasum, name=f"again {size}"))
        torch.testing.assert_close(tensor.sum(), torch.tensor(float(hvd.size())))
    assert mapped() == before


def check_memory_is_an_ordinary_tensor_of_zeros() -> None:
    for size in ((3, 5), ((3, 5),), (torch.Size((3, 5)),)):
        tensor = hvd.shared_empty(*size, dtype=torch.bfloat16)
        assert tensor.shape == (3, 5)
        assert tensor.dtype == torch.bfloat16
        assert tensor.is_contiguous()
        assert not tensor.any()
    assert hvd.shared_empty(7).dtype == torch.get_default_dtype()
    assert hvd.shared_empty(2, 0).shape == (2, 0)
    assert hvd.shared_empty().shape == ()
    tensor = hvd.shared_empty(4)
    tensor += hvd.rank()
    hvd.barrier()
    assert tensor.tolist() == [hvd.rank()] * 4  # what another rank writes is its own


def check_allreduces_of_every_type_and_op_work_in_place() -> None:
    count = 40_000
    for dtype in FLOATS + INTEGERS:
        tensor = hvd.shared_empty(count, dtype=dtype)
        for turn, (op, reduce) in enumerate(OPS.items()):
            rows = whole_numbers(count, turn)
            expected = reduce(rows, 0).to(dtype)
            for start in (hvd.allreduce_, reduce_asynchronously):
                tensor.copy_(rows[hvd.rank()])
                before = mapped()
                assert start(tensor, op=op) is tensor
                assert torch.equal(tensor, expected), (dtype, op)
                assert mapped() - before == SHARES


def check_factors_and_averages_equal_those_of_other_memory() -> None:
    generator = torch.Generator().manual_seed(11)
    for dtype in FLOATS:
        shared = hvd.shared_empty(33_333, dtype=dtype)
        for prescale, postscale, op in (
            (1.0, 1.0, hvd.Average),
            (0.5, 3.0, hvd.Sum),
            (0.3, 0.7, hvd.Average),
        ):
            rows = torch.randn((hvd.size(), shared.numel()), generator=generator).to(dtype)
            shared.copy_(rows[hvd.rank()])
            options: dict[str, Any] = {
                "op": op,
                "prescale_factor": prescale,
                "postscale_factor": postscale,
            }
            hvd.allreduce_(shared, **options)
            other = hvd.allreduce(rows[hvd.rank()].clone(), **options)
            # Of two operands, the sum has the same bits in every order.
            exact: dict[str, Any] = {"rtol": 0.0, "atol": 0.0} if hvd.size() == 2 else {}
            torch.testing.assert_close(shared, other, **exact)
            everyones = hvd.allgather(shared.unsqueeze(0))
            assert all(torch.equal(each, shared) for each in everyones)


@st.composite
def reductions(draw: st.DrawFn) -> dict[str, Any]:
    """One allreduce of some parts of a buffer of 3,000 elements."""
    dtype = draw(st.sampled_from(FLOATS + INTEGERS))
    ops = [hvd.Average, *OPS] if dtype in FLOATS else list(OPS)
    factors = st.sampled_from((1.0, 0.5, 2.0, 0.3, -1.25)) if dtype in FLOATS else st.just(1.0)
    cuts = sorted(draw(st.sets(st.integers(0, 3000), min_size=2, max_size=6)))
    return {
        "dtype": dtype,
        "parts": list(zip(cuts[::2], cuts[1::2], strict=False)),
        "op": draw(st.sampled_from(ops)),
        "prescale_factor": draw(factors),
        "postscale_factor": draw(factors),
        "grouped": draw(st.booleans()),
        "way": draw(st.sampled_from(("blocking", "waiting", "asking"))),
        "seed": draw(st.integers(0, 2**31)),
    }


def run_reduction(plan: dict[str, Any]) -> None:
    """The parts get what other memory gets, and the rest of the buffer stays as it is."""
    dtype, parts = plan["dtype"], plan["parts"]
    options = {key: plan[key] for key in ("op", "prescale_factor", "postscale_factor")}
    rows = whole_numbers(3000, plan["seed"]).to(dtype)
    if dtype not in BUFFERS:
        BUFFERS[dtype] = hvd.shared_empty(3000, dtype=dtype)
    shared = BUFFERS[dtype]
    shared.copy_(rows[hvd.rank()])
    expected = shared.clone()
    for begin, end in parts:
        expected[begin:end] = hvd.allreduce(expected[begin:end].clone(), **options)
    views = [shared[begin:end] for begin, end in parts]
    before = mapped()
    if plan["grouped"]:
        hvd.grouped_allreduce_(views, **options)
    elif plan["way"] == "blocking":
        for view in views:
            hvd.allreduce_(view, **options)
    else:
        wait = wait_by_asking if plan["way"] == "asking" else hvd.synchronize
        for handle in [hvd.allreduce_async_(view, **options) for view in views]:
            wait(handle)
    assert mapped() - before <= (len(parts) if SHARES else 0)
    single = len(parts) == 1 if plan["grouped"] else plan["way"] != "asking"
    assert mapped() > before or not SHARES or single  # small ones are copied
    # Of two operands, the sum has the same bits in every order.
    exact: dict[str, Any] = {"rtol": 0.0, "atol": 0.0} if hvd.size() == 2 else {}
    torch.testing.assert_close(shared, expected, **exact)


BUFFERS: dict[torch.dtype, torch.Tensor] = {}


def check_random_reductions() -> None:
    @seed(2026)
    @settings(
        max_examples=120,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=reductions())
    def run(plan: dict[str, Any]) -> None:
        run_reduction(plan)

    run()


def check_parts_groups_and_many_at_once() -> None:
    shared = hvd.shared_empty(50, 1000)
    shared.fill_(hvd.rank() + 1.0)
    total = hvd.size() * (hvd.size() + 1) / 2
    elsewhere = torch.full((10,), hvd.rank() + 1.0)
    before = mapped()
    handles = [hvd.allreduce_async_(row, op=hvd.Sum) for row in shared[:20]]
    handles.append(hvd.grouped_allreduce_async_([*shared[20:30], elsewhere], op=hvd.Sum))
    for handle in handles:
        wait_by_asking(handle)
    assert mapped() - before == (21 if SHARES else 0)
    assert (shared[:30] == total).all()
    assert (elsewhere == total).all()
    assert (shared[30:] == hvd.rank() + 1).all()


def check_a_part_elsewhere_on_one_rank_is_right_on_all() -> None:
    shared = hvd.shared_empty(2, 40_000)
    before = mapped()
    for turn in range(4):
        mine = shared[turn % 2 if hvd.rank() == 0 else 0]
        if hvd.rank() == hvd.size() - 1 and turn > 1:
            mine = torch.empty(40_000)
        mine.fill_(turn + hvd.rank())
        hvd.allreduce_(mine, op=hvd.Sum)
        assert (mine == sum(turn + rank for rank in range(hvd.size()))).all()
    assert mapped() - before == SHARES


def check_other_collectives_take_it_as_any_tensor() -> None:
    shared = hvd.shared_empty(2 * hvd.size(), 3)
    shared.fill_(hvd.rank())
    assert hvd.allgather(shared)[::2, 0].tolist() == [
        r for r in range(hvd.size()) for _ in range(hvd.size())
    ]
    assert (hvd.broadcast(shared, 1) == 1).all()
    assert (hvd.reducescatter(shared, op=hvd.Max) == hvd.size() - 1).all()
    assert (shared == hvd.rank()).all()


def check_memory_lives_as_long_as_a_part_of_it() -> None:
    part = hvd.shared_empty(1 << 20).fill_(hvd.rank())[-5:]
    gc.collect()
    hvd.barrier()
    assert part.tolist() == [hvd.rank()] * 5
    hvd.allreduce_(part, op=hvd.Sum)
    assert part.tolist() == [sum(range(hvd.size()))] * 5


def check_what_is_freed_is_gone() -> None:
    def mappings() -> int:
        gc.collect()
        hvd.barrier()
        return Path("/proc/self/maps").read_text().count("memfd:horovod")

    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before, opened = mappings(), files()
    kept = [hvd.shared_empty(1000) for _ in range(5)]
    assert mappings() - before == (5 if SHARES else 0)
    assert files() == opened
    kept.clear()
    assert mappings() == before


def check_unlike_requests_fail_on_all_ranks() -> None:
    with pytest.raises(
        hvd.HorovodInternalError, match=r"Mismatched SHARE MEMORY tensor shapes.*\[5\]"
    ):
        hvd.shared_empty(5 if hvd.rank() == 0 else 6)
    with pytest.raises(hvd.HorovodInternalError, match="Mismatched data types"):
        hvd.shared_empty(5, dtype=torch.int32 if hvd.rank() == 0 else torch.int64)
    with pytest.raises(ValueError, match="complex64 is not supported"):
        hvd.shared_empty(5, dtype=torch.complex64)
    assert hvd.shared_empty(5).numel() == 5


def check_sizes_that_no_memory_has_are_refused_where_they_are_given() -> None:
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="dimension -1 of a shape is negative"):
            hvd.shared_empty(3, -1, name="sizes")
        with pytest.raises(ValueError, match="too many elements"):
            hvd.shared_empty(2**40, 2**40, name="sizes")
        with pytest.raises(ValueError, match="dimension -7 of a shape is negative"):
            hvd_array.shared_empty((-7, 0), name="sizes")
    # A tensor could have so many elements; the file for those of all ranks could not.
    with pytest.raises(ValueError, match=r"too many elements.*can share at most"):
        hvd.shared_empty(2**60, name="sizes")
    with pytest.raises(ValueError, match=r"too many elements.*can share at most"):
        hvd_array.shared_empty((2**31, 2**31), np.uint8, name="sizes")
    assert hvd.shared_empty(5, name="sizes").numel() == 5


def check_more_than_the_machine_has_is_refused_on_all_ranks() -> None:
    for size in (2**41, 2**44):
        with pytest.raises(hvd.HorovodInternalError, match=rf"no memory.* {4 * size} bytes: that"):
            hvd.shared_empty(size, name="large")
    assert hvd.shared_empty(5, name="large").numel() == 5


def check_process_sets_make_buffers_of_their_own() -> None:
    pair = hvd.add_process_set([0, hvd.size() - 1]) if hvd.size() > 2 else hvd.global_process_set
    if pair.included():
        shared = hvd.shared_empty(30_000, process_set=pair)
        shared.fill_(hvd.rank())
        before = mapped()
        hvd.allreduce_(shared, op=hvd.Sum, process_set=pair)
        assert (shared == hvd.size() - 1).all()
        assert mapped() - before == SHARES
    if pair is not hvd.global_process_set:
        hvd.remove_process_set(pair)


def check_arrays() -> None:
    array = hvd_array.shared_empty((3, 10_000), np.float64)
    assert isinstance(array, np.ndarray)
    assert array.flags.writeable
    array[:] = hvd.rank()
    before = mapped()
    hvd_array.allreduce_(array, op=hvd_array.Sum)
    hvd_array.allreduce_(array[1], op=hvd_array.Max)
    assert (array == sum(range(hvd.size()))).all()
    assert mapped() - before == (2 if SHARES else 0)
    buffer = hvd_array.shared_empty(8, "bfloat16")
    assert (buffer.dtype, buffer.shape) == ("bfloat16", (8,))
    with pytest.raises(ValueError, match="complex64"):
        hvd_array.shared_empty(8, np.complex64)
    assert hvd_array.shared_empty(np.int64(8)).shape == (8,)
    assert hvd_array.shared_empty(np.array([2, 3])).shape == (2, 3)
    wrong: Any
    for wrong in ((8, 2.5), "8"):
        with pytest.raises(TypeError, match="a shape is a whole number or a sequence"):
            hvd_array.shared_empty(wrong)
    for wrong in (1 << 70, (2, -(1 << 70))):
        for shared_empty in (hvd.shared_empty, hvd_array.shared_empty):
            with pytest.raises(ValueError, match="a size is negative or too large"):
                shared_empty(wrong)
