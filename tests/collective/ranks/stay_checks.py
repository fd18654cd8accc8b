"""Operations that nobody waits for stay while their rank computes, but nobody is kept by that.

Where ranks have cores to spare, or share no memory, they stay for 100 µs, and all this holds too.
"""

import contextlib
import statistics
import time
from collections.abc import Callable

import pytest
import torch

import horovod.torch as hvd

TRIES = 5
PATIENCE = 60.0  # seconds
SOON = 0.5  # seconds: half of the longest stay


def _compute_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    factor = torch.rand(100, 100)
    while not condition():
        assert time.monotonic() < end
        factor.mm(factor)


def _check_not_kept(wait: Callable[[int], object]) -> None:
    """Rank 0 waits for what the others start, who compute on for longer than it may stay."""
    waited = []
    for _ in range(TRIES):
        hvd.allreduce(torch.ones(3), name="after which stays are long again")
        hvd.barrier()
        begin = time.monotonic()
        handle = hvd.allreduce_async(torch.ones(3), name="waited for", op=hvd.Sum)
        if hvd.rank() == 0:
            wait(handle)
            waited.append(time.monotonic() - begin)
        else:
            end = begin + 3 * SOON
            _compute_until(lambda end=end: time.monotonic() > end)  # type: ignore[misc]
            hvd.synchronize(handle)
    assert hvd.rank() != 0 or statistics.median(waited) < SOON, waited


def check_a_rank_that_waits_is_not_kept() -> None:
    _check_not_kept(hvd.synchronize)


def check_a_rank_that_polls_is_not_kept() -> None:
    def poll(handle: int) -> None:
        end = time.monotonic() + PATIENCE
        while not hvd.poll(handle):
            assert time.monotonic() < end
            time.sleep(0.001)
        hvd.synchronize(handle)

    _check_not_kept(poll)


def check_what_nobody_waits_for_is_done_while_all_compute() -> None:
    tensor = torch.ones(3)
    handle = hvd.allreduce_async_(tensor, name="left alone", op=hvd.Sum)
    _compute_until(lambda: bool(tensor.eq(hvd.size()).all()))
    hvd.synchronize(handle)


def _start_forgotten(value: float) -> None:
    """Each refusal comes after a wait for ranks that the machine has kept, none at once."""
    tensor = torch.full((3,), value)
    for _ in range(20):
        with contextlib.suppress(ValueError):
            hvd.allreduce_async(tensor, name="forgotten")
            return
    pytest.fail("the name was never free")


def check_a_name_is_free_for_who_forgets_operations() -> None:
    """As under Horovod, where they run at once. Two at once are a mistake there too."""
    for value in range(4):
        _start_forgotten(float(value))
        end = time.monotonic() + 0.3 * SOON
        _compute_until(lambda end=end: time.monotonic() > end)  # type: ignore[misc]
    hvd.barrier()
    hvd.allreduce(torch.ones(3), name="forgotten")
    if hvd.rank() != 0:  # They start it when rank 0 has been refused: until then it cannot end.
        hvd.barrier()
    handle = hvd.allreduce_async(torch.ones(3), name="twice")
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="same name"):
            hvd.allreduce_async(torch.ones(3), name="twice")
        hvd.barrier()
    hvd.synchronize(handle)


def check_what_a_rank_has_forgotten_runs_before_it_ends_the_job() -> None:
    """Each try with another job, of which at least one is not held up by a busy machine."""
    results = []
    for _ in range(TRIES):
        tensor = torch.ones(3)
        handle = hvd.allreduce_async_(tensor, name="the last one", op=hvd.Sum)
        end = time.monotonic() + 0.2 * SOON
        _compute_until(lambda end=end: time.monotonic() > end)  # type: ignore[misc]
        if hvd.rank() == 0:
            _compute_until(lambda end=end: time.monotonic() > end + 0.6 * SOON)  # type: ignore[misc]
            with contextlib.suppress(hvd.HorovodInternalError):
                hvd.synchronize(handle)
        hvd.shutdown()
        hvd.init()
        results.append(tensor.tolist())
    assert [hvd.size()] * 3 in results
