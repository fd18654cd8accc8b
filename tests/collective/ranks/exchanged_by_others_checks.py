"""Tensors that another thread gives other memory while a call works on what they had."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.meanwhile import let_the_others_come, next_number, while_it_waits
from horovod._loader import _bindings
from horovod._session import SESSION
from horovod._unnamed_operations import internal_error
from horovod.common.exceptions import HorovodInternalError
from horovod.torch import broadcasting, gathering, grouped, mpi_ops, redistribution, reduction
from horovod.torch.handles import start_unmet
from horovod.torch.operands import put_back, room_for_rows

STARTING = (broadcasting, gathering, grouped, redistribution, reduction)
LENGTH = 3000  # elements
TRIES = 100


def own() -> torch.Tensor:
    return torch.full((LENGTH,), hvd.rank() + 1.0)


def total() -> float:
    return float(sum(range(1, hvd.size() + 1)))


def first_of(result: Any) -> torch.Tensor:
    tensor: torch.Tensor = result[0] if isinstance(result, (list, tuple)) else result
    return tensor


def exchanging(tensor: torch.Tensor, size: int, others: list[torch.Tensor]) -> Callable[[], None]:
    """Gives a tensor other memory, and others what it has left unless something keeps that."""

    def exchange() -> None:
        tensor.data = torch.zeros(size)
        others.extend(torch.zeros(LENGTH) for _ in range(20))

    return exchange


def until_they_meet(call: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Calls with a tensor that is given another shape, again where that comes too early.

    Rank 0 looks for the others, which come soon; if they are late all the same, it starts the
    operation, with what the tensor has by then: another shape than theirs.

    Returns:
        What the call has returned.
    """
    for _ in range(TRIES):
        tensor = own()
        again = functools.partial(call, tensor)
        with contextlib.suppress(HorovodInternalError):
            result: torch.Tensor = while_it_waits(again, exchanging(tensor, 10, []))
            return result
    raise AssertionError("the ranks have never met")


def check_blocking_calls_use_the_memory_that_they_were_called_with() -> None:
    output = torch.zeros(LENGTH * hvd.size())
    fp16 = hvd.Compression.fp16
    calls: tuple[tuple[Callable[[torch.Tensor], Any], float], ...] = (
        (lambda tensor: hvd.allreduce_(tensor, op=hvd.Sum), total()),
        (lambda tensor: hvd.grouped_allreduce_([tensor, own()], op=hvd.Sum), total()),
        (lambda tensor: hvd.broadcast_(tensor, 0), 1.0),
        (lambda tensor: hvd.allreduce_(tensor[::2], op=hvd.Sum), total()),
        (lambda tensor: hvd.allreduce(tensor, op=hvd.Sum), total()),
        (lambda tensor: hvd.grouped_allreduce([tensor, own()], op=hvd.Sum), total()),
        (lambda tensor: hvd.broadcast(tensor, 0), 1.0),
        (lambda tensor: hvd.allgather(tensor)[:LENGTH], 1.0),
        (lambda tensor: hvd.allgather(tensor, output=output)[:LENGTH], 1.0),
        (lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, compression=fp16), total()),
    )
    for number, (call, expected) in enumerate(calls):
        tensor, others = own(), list[torch.Tensor]()
        act = exchanging(tensor, LENGTH, others)
        result = first_of(while_it_waits(lambda: call(tensor), act))  # noqa: B023 - run here
        # The latter where the exchange has come before the operation, as said above.
        assert result.tolist() in ([expected] * len(result), [expected - 1] * len(result)), number
        assert not any(each.any() for each in others), number
        if number < 3:
            assert tensor.tolist() == result.tolist(), number


def check_blocking_calls_use_the_shape_that_they_were_called_with() -> None:
    calls: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
        lambda tensor: hvd.allreduce(tensor, op=hvd.Sum),
        lambda tensor: hvd.broadcast(tensor, 0) * total(),
        lambda tensor: hvd.allgather(tensor)[:LENGTH] * total(),
    )
    for number, call in enumerate(calls):
        assert until_they_meet(call).tolist() == [total()] * LENGTH, number


def check_a_result_goes_into_the_memory_that_the_output_has_now() -> None:
    output, others = torch.zeros(LENGTH * hvd.size()), list[torch.Tensor]()
    act = exchanging(output, LENGTH * hvd.size(), others)
    assert while_it_waits(lambda: hvd.allgather(own(), output=output), act) is output
    assert output[:LENGTH].tolist() == [1.0] * LENGTH
    assert not any(each.any() for each in others)


def check_a_result_that_has_no_place_any_more_is_named() -> None:
    def call(tensor: torch.Tensor) -> torch.Tensor:
        kept, problem = tensor.detach(), ""
        try:
            hvd.allreduce_(tensor, op=hvd.Sum)
        except HorovodInternalError:
            raise
        except RuntimeError as error:
            problem = str(error)
        assert ("given memory of shape [10]" in problem) == (hvd.rank() == 0), problem
        return kept

    assert until_they_meet(call).tolist() == [total()] * LENGTH


class Kind(torch.Tensor):
    """One that the bindings leave alone."""


def refused_calls() -> list[tuple[str, torch.Tensor, Callable[[], Any]]]:
    """Calls of each way that a blocking one can take, by kind, with a tensor of each."""
    sent, plain = own(), own()
    kind: torch.Tensor = own().as_subclass(Kind)
    rows = torch.zeros(LENGTH * hvd.size())
    part = torch.zeros(LENGTH // hvd.size())
    fp16 = hvd.Compression.fp16
    calls: list[tuple[str, torch.Tensor, Callable[[], Any]]] = [
        ("allreduce", plain, lambda: hvd.allreduce(plain)),
        ("allreduce", plain, lambda: hvd.allreduce(plain, compression=fp16)),
        ("allreduce", plain, lambda: hvd.allreduce_(plain)),
        ("allreduce", kind, lambda: hvd.allreduce_(kind)),
        ("broadcast", plain, lambda: hvd.broadcast(plain, 0)),
        ("broadcast", plain, lambda: hvd.broadcast_(plain, 0)),
        ("broadcast", kind, lambda: hvd.broadcast_(kind, 0)),
        ("allgather", kind, lambda: hvd.allgather(kind)),
        ("alltoall", kind, lambda: hvd.alltoall(kind)),
        ("reducescatter", kind, lambda: hvd.reducescatter(kind)),
    ]
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):  # the others look for nobody then
        return calls
    return [
        *calls,
        ("allreduce", plain, lambda: hvd.grouped_allreduce([sent, plain])),
        ("allreduce", plain, lambda: hvd.grouped_allreduce_([sent, plain])),
        ("allgather", rows, lambda: hvd.allgather(sent, output=rows)),
        ("alltoall", plain, lambda: hvd.alltoall(sent, output=plain)),
        ("reducescatter", part, lambda: hvd.reducescatter(sent, output=part)),
    ]


def refused_after_looking(kind: str, tensor: torch.Tensor, call: Callable[[], Any]) -> int:
    """Rank 0 calls alone, with a tensor that is exchanged once it has looked for the others.

    Returns:
        How many numbers that call, which is refused, has taken. All ranks have made another one.
    """
    lost = 0
    if hvd.rank() == 0:
        kept, before = tensor.data, next_number(kind)

        def exchanged(kind: str, name: str | None, start: Callable[[str | None], int]) -> int:
            tensor.data = torch.zeros(tensor.shape, dtype=torch.complex64)
            return start_unmet(kind, name, start)

        with contextlib.ExitStack() as patches:
            for module in STARTING:
                patches.enter_context(mock.patch.object(module, "start_unmet", exchanged))
            with pytest.raises(ValueError, match=r"ComplexFloat|complex64"):
                call()
        tensor.data = kept
        lost = next_number(kind) - before
        if lost:
            SESSION.member.runtime.take_back_unnamed(_bindings.KINDS[kind], 0, before)
    lost = int(let_the_others_come(number=lost))
    call()
    return lost


def check_a_call_that_cannot_go_on_can_be_made_again() -> None:
    for number, (kind, tensor, call) in enumerate(refused_calls()):
        assert refused_after_looking(kind, tensor, call) == 0, (number, kind)


def check_results_have_room_for_what_is_read() -> None:
    """PyTorch lets other threads run while it makes the result."""
    exchange_api = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange_api is None:
        return
    tensor = own()
    size = LENGTH

    def new_result(like: torch.Tensor) -> torch.Tensor:
        tensor.data = torch.full((size,), 5.0)
        return torch.empty_like(like)

    member = SESSION.member
    arguments = (exchange_api, (torch.Tensor,), new_result, internal_error, put_back)
    blocking = member.runtime.blocking_calls(*arguments)
    started = member.runtime.started_calls(
        *arguments,
        new_rows=room_for_rows,
        rank=hvd.rank(),
        size=hvd.size(),
        site=lambda: "",
        site_after=0.0,
    )
    for size in (LENGTH, LENGTH // 2, LENGTH * 2):
        tensor.data = own()
        handle = started.allreduce(tensor, None, mpi_ops.Sum, 1.0, 1.0, 0, None)
        assert handle is not None
        assert started.synchronize(handle).tolist() == [total()] * LENGTH
        tensor.data = own()
        handle = started.grouped_allreduce([tensor, own()], None, mpi_ops.Sum, 1.0, 1.0, 0)
        assert handle is not None
        assert [each.tolist() for each in started.synchronize(handle)] == [[total()] * LENGTH] * 2
        tensor.data = own()
        hvd.barrier()
        done = blocking.allreduce(tensor, None, mpi_ops.Sum, 1.0, 1.0)
        if size != LENGTH:
            assert done is None  # left to the ordinary way
        elif isinstance(done, torch.Tensor):
            assert done.tolist() == [5.0 * hvd.size()] * LENGTH
        else:  # the ranks have not met
            handle = hvd.allreduce_async(tensor, name=done, op=hvd.Sum)
            assert hvd.synchronize(handle).tolist() == [5.0 * hvd.size()] * LENGTH
