"""What cannot be done on a GPU is refused, and what follows goes on; likewise on the CPU."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.compared_results import comes, total
from collective.ranks.gpu_of_rank import has_gpus, place
from collective.ranks.gpu_streams import many
from horovod.common.exceptions import HorovodInternalError

Call = Callable[[torch.Tensor], object]


def check_types_that_are_refused_change_nothing() -> None:
    where = place()
    calls: tuple[Call, ...] = (hvd.allreduce, hvd.allreduce_async_, hvd.allgather, hvd.alltoall)
    bad = [torch.zeros(3, dtype=torch.complex64, device=where)]
    bad += [
        torch.zeros(3, device=where).to(getattr(torch, name))
        for name in ("float8_e4m3fn", "float8_e5m2")
        if hasattr(torch, name)
    ]
    for tensor in bad:
        for call in calls:
            with pytest.raises(ValueError, match="not supported"):
                call(tensor)
        with pytest.raises(ValueError, match="not supported"):
            hvd.grouped_allreduce([torch.ones(2, device=where), tensor])
    short = torch.ones(hvd.size(), dtype=torch.int16, device=where)
    if hvd.rank() == 0 and has_gpus():
        # Of one rank alone: it takes no number of an unnamed operation.
        reductions: tuple[Call, ...] = (hvd.allreduce, hvd.allreduce_, hvd.reducescatter)
        for call in reductions:
            with pytest.raises(ValueError, match="NCCL does not reduce int16"):
                call(short)
        with pytest.raises(ValueError, match="NCCL does not reduce int16"):
            hvd.grouped_allreduce([torch.ones(2, device=where), short])
    mine = torch.ones(3, device=where)
    found = comes(hvd.allreduce_async(mine, op=hvd.Sum), "what follows a refusal")
    assert found.eq(hvd.size()).all()
    assert hvd.reducescatter(torch.ones(hvd.size(), device=where), op=hvd.Sum).item() == hvd.size()


def check_memory_of_two_kinds_does_not_meet() -> None:
    pinned = torch.full((1000,), hvd.rank() + 1.0)
    pinned = pinned.pin_memory() if has_gpus() else pinned
    pageable, mine = pinned.clone(), pinned.to(place())
    for handle in [hvd.allreduce_async(each, op=hvd.Sum) for each in (pinned, mine, pageable)]:
        assert hvd.synchronize(handle).eq(total()).all()
    assert all(f.eq(total()).all() for f in hvd.grouped_allreduce([pinned, pageable], op=hvd.Sum))
    assert hvd.allgather(pinned).shape == (1000 * hvd.size(),)
    hvd.allreduce_(pinned, op=hvd.Sum)
    assert pinned.eq(total()).all()
    if not has_gpus():
        return
    both = [torch.ones(3), torch.ones(3, device=place())]
    for grouped in (both, both[::-1]):
        for call in (hvd.grouped_allreduce, hvd.grouped_allreduce_async_, hvd.grouped_allgather):
            with pytest.raises(ValueError, match="on one device"):
                call(grouped)
    with pytest.raises(ValueError, match="same device"):
        hvd.allgather(both[0], output=torch.empty(3 * hvd.size(), device=place()))
    with pytest.raises(ValueError, match="same device"):
        hvd.allgather(both[1], output=torch.empty(3 * hvd.size()))
    if hvd.size() > 1:
        own = both[hvd.rank() % 2]
        starts: list[Callable[[], int]] = [
            lambda: hvd.allreduce_async(own, name="unlike"),
            lambda: hvd.allreduce_async_(own.clone(), name="unlike"),
            lambda: hvd.broadcast_async(own, 0, name="unlike broadcast"),
            lambda: hvd.allgather_async(own, name="unlike allgather"),
            lambda: hvd.reducescatter_async(own, name="unlike scatter"),
            lambda: hvd.grouped_allreduce_async([own, own], name="unlike group"),
        ]
        for number, start in enumerate(starts):
            handle = start()
            with pytest.raises(HorovodInternalError, match="CPU/GPU device selection"):
                comes(handle, f"error {number}")
        with pytest.raises(HorovodInternalError, match="CPU/GPU device selection"):
            hvd.allreduce(own)
    for each in both:
        assert hvd.allreduce(each, op=hvd.Sum).eq(hvd.size()).all()


def what_is_left(nbytes: int) -> Iterator[torch.Tensor]:
    """Memory that PyTorch still gives, in pieces."""
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        for _ in range(10_000):
            yield torch.empty(nbytes, dtype=torch.uint8, device=place())


def check_no_room_for_a_result_is_pytorchs_error_and_changes_nothing() -> None:
    mine = torch.ones(many(8 << 20), device=place())
    if has_gpus():
        torch.cuda.empty_cache()
        whole = torch.cuda.get_device_properties(place()).total_memory
        used = torch.cuda.memory_reserved(place())
        if hvd.rank() == 0:  # alone: whose numbers of unnamed operations must not go on
            torch.cuda.set_per_process_memory_fraction((used + (4 << 20)) / whole, place())
            rest = list(what_is_left(4 << 20))
            try:
                for call in (
                    lambda: hvd.allreduce(mine),
                    lambda: hvd.allreduce_async(mine),
                    lambda: hvd.broadcast(mine, 0),
                    lambda: hvd.grouped_allreduce([mine[:9], mine]),
                    lambda: hvd.allreduce_(mine.view(1 << 10, -1).t()),
                ):
                    with pytest.raises(torch.cuda.OutOfMemoryError):
                        call()
            finally:
                del rest
                torch.cuda.set_per_process_memory_fraction(1.0, place())
    found = comes(hvd.allreduce_async(mine[:9], op=hvd.Sum), "what follows on a lack of memory")
    assert found.eq(hvd.size()).all()
    found = comes(hvd.broadcast_async(mine[:9], 0), "a broadcast")
    assert found.eq(1).all()
    found = comes(hvd.grouped_allreduce_async([mine[:9]], op=hvd.Sum), "a group")
    assert found[0].eq(hvd.size()).all()
