"""Waits that a signal's handler ends by an exception, and which are made again."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import horovod.array as hvd_array
import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.default_device import with_buckets
from collective.ranks.meanwhile import (
    Interrupt,
    interrupt_the_main_thread,
    interrupted_as_the_others_come,
    interrupted_before_the_others_come,
    let_the_others_come,
    next_number,
    raising_handler,
    while_it_waits,
)
from horovod._collectives import COLLECTIVES
from horovod.torch import gathering
from horovod.torch.started import STARTED

TIMES = 3
LENGTH = 3000  # elements; not of the few bytes that travel with the announcement


class Kind(torch.Tensor):
    """One that the bindings leave alone."""


def under_way() -> int:
    return STARTED.newest.under_way() + len(COLLECTIVES._pending)


def waiting(start: Callable[[], Any], wait: Callable[[Any], Any]) -> Callable[[], Any]:
    """What starts an operation when it is called first, and waits for it, again if need be."""
    handles: list[Any] = []

    def wait_again() -> Any:
        if not handles:
            handles.append(start())
        return wait(handles[0])

    return wait_again


def check_a_result_that_comes_with_a_signal_is_there_for_the_next_call() -> None:
    own, size = torch.full((LENGTH,), 1.0), hvd.size()
    sparse = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0]), (3,))
    array = np.ones(LENGTH, np.float32)
    kinds: list[tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], float]]] = [
        (lambda: hvd.allreduce_async(own, op=hvd.Sum), hvd.synchronize, lambda got: got[0]),
        (lambda: hvd.allgather_async(own), hvd.synchronize, lambda got: len(got) / LENGTH),
        (
            lambda: hvd.grouped_allgather_async([own]),
            hvd.synchronize,
            lambda got: len(got[0]) / LENGTH,
        ),
        (
            lambda: hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum),
            lambda finish: finish(),
            lambda got: got.to_dense()[0],
        ),
        (
            lambda: hvd_array.allreduce_async(array, op=hvd_array.Sum),
            hvd_array.synchronize,
            lambda got: got[0],
        ),
    ]
    before = under_way()
    for number, (start, wait, value) in enumerate(kinds * TIMES):
        got = interrupted_as_the_others_come(waiting(start, wait))
        assert float(value(got)) == size, number % len(kinds)
        assert under_way() == before, number % len(kinds)


def check_a_step_that_a_signal_ends_is_made_again() -> None:
    kinds = with_buckets({}, {"groups": 1}, {"compression": hvd.Compression.fp16})
    for options in kinds:
        layer = torch.nn.Linear(4, 3, bias=False)
        plain = torch.optim.SGD(layer.parameters(), lr=0.0)
        optimizer: Any = hvd.DistributedOptimizer(
            plain, layer.named_parameters(), op=hvd.Sum, **options
        )

        def step(_: None, optimizer: Any = optimizer) -> None:
            optimizer.step()

        for number in range(TIMES + 1):
            optimizer.zero_grad()
            loss = layer(torch.full((1, 4), 2.0**number)).sum()
            whole = waiting(functools.partial(run_backward, loss), step)
            # The first one makes buckets, together with the others.
            _ = interrupted_as_the_others_come(whole) if number else whole()
            assert layer.weight.grad is not None
            assert layer.weight.grad.tolist() == [[2.0**number * hvd.size()] * 4] * 3, options


def check_a_call_that_a_signal_ends_before_it_has_begun_can_be_made_again() -> None:
    """One that has begun goes on; which of the two it is depends on when the signal comes."""
    own, total = torch.ones(LENGTH), float(hvd.size())

    def barrier() -> float:
        hvd.barrier()
        return total

    kinds: list[tuple[str, Callable[[], Any]]] = [
        ("allreduce", lambda: hvd.allreduce(own, op=hvd.Sum)[0]),
        (
            "allreduce",
            lambda: hvd.allreduce(own, op=hvd.Sum, compression=hvd.Compression.fp16)[0],
        ),
        ("allgather", lambda: hvd.allgather(torch.ones(1)).sum()),
        ("barrier", barrier),
        ("allreduce", lambda: hvd_array.allreduce(np.ones(2), op=hvd_array.Sum)[0]),
    ]
    for index, (kind, call) in enumerate(kinds * TIMES):
        assert float(call()) == total
        begun, lost = 0, 0
        if hvd.rank() == 0:
            before, number = under_way(), next_number(kind)
            interrupted_before_the_others_come(call)
            begun = under_way() - before
            lost = next_number(kind) - number - begun
        assert let_the_others_come(number=lost) == 0, (index % len(kinds), kind)
        if hvd.rank() != 0 or not begun:
            assert float(call()) == total
        let_the_others_come()  # rank 0 waits for what has begun


def check_a_call_that_a_signal_ends_after_it_has_looked_counts_if_it_has_begun() -> None:
    """Its ranks have not met, and Python runs the handler around the start the ordinary way."""
    start = gathering.allgather_async
    handles: list[int] = []

    def refused(*_: Any) -> int:
        raise Interrupt

    def interrupted(*given: Any) -> int:
        handles.append(start(*given))
        raise Interrupt

    own = torch.ones(LENGTH)
    for begins in (interrupted, refused):
        taken = 0
        if hvd.rank() == 0:
            before = next_number("allgather")
            with (
                mock.patch.object(gathering, "allgather_async", begins),
                pytest.raises(Interrupt),
            ):
                hvd.allgather(own.as_subclass(Kind))
            taken = next_number("allgather") - before
        assert let_the_others_come(number=taken) == (begins is interrupted)
        result = hvd.synchronize(handles.pop()) if handles else hvd.allgather(own)
        assert len(result) == LENGTH * hvd.size()


def check_a_signal_that_comes_with_the_others_takes_no_number_back() -> None:
    """The call has run on all ranks, whatever rank 0 makes of it."""
    own = torch.ones(LENGTH)
    kinds: list[tuple[str, Callable[[], Any]]] = [
        ("barrier", hvd.barrier),
        ("allreduce", lambda: hvd.allreduce(own)),
        ("allreduce", lambda: hvd.allreduce(own, compression=hvd.Compression.fp16)),
        ("allreduce", lambda: hvd_array.allreduce(np.ones(2))),
    ]
    for index, (kind, call) in enumerate(kinds * TIMES):
        call()
        before = next_number(kind)
        with raising_handler(), contextlib.suppress(Interrupt):
            while_it_waits(call, interrupt_the_main_thread)
        if next_number(kind) == before:  # they came too late: it had not begun
            call()
        number = float(next_number(kind))
        assert let_the_others_come(number=number) == number, (index % len(kinds), kind)
