"""Steps that an exception ends on one rank while it waits, and which are made again."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.default_device import with_buckets
from horovod.torch.buckets import BucketReducer
from horovod.torch.compression import NoneCompressor
from horovod.torch.gradient_memory import Memory
from horovod.torch.gradient_sending import GradientSender


def model_and_optimizer(**options: Any) -> tuple[torch.nn.Sequential, Any]:
    model = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(3)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    plain = torch.optim.SGD(model.parameters(), lr=0.0)
    wrapped = hvd.DistributedOptimizer(plain, model.named_parameters(), op=hvd.Sum, **options)
    return model, wrapped


@contextlib.contextmanager
def interrupted(module: str) -> Iterator[None]:
    """Ends the second wait of a step as Ctrl-C does: the operation goes on."""
    synchronize, waits = hvd.synchronize, []

    def once_interrupted(handle: int) -> Any:
        waits.append(handle)
        if len(waits) == 2:
            raise KeyboardInterrupt
        return synchronize(handle)

    with mock.patch(f"horovod.torch.{module}.synchronize", once_interrupted):
        yield


def gradients(model: torch.nn.Module) -> list[float]:
    return [float(each.grad) for each in model.parameters() if each.grad is not None]


def check_a_step_after_an_interrupt_sends_nothing_twice() -> None:
    for options in with_buckets({}):
        bucket = {"bucket_cap_mb": 0} if options else {}  # of one gradient each
        module = "buckets" if options else "gradients"
        model, optimizer = model_and_optimizer(**options, **bucket)
        for number in range(4):
            optimizer.zero_grad()
            run_backward(model(torch.full((1, 1), 10.0**number)).sum())
            if number == 1 and hvd.rank() == 0:
                with interrupted(module), pytest.raises(KeyboardInterrupt):
                    optimizer.step()
                with pytest.raises(AssertionError, match=r"zero_grad\(\) was called"):
                    optimizer.zero_grad()
            optimizer.step()
            assert gradients(model) == [10.0**number * hvd.size()] * 3, (module, number)


class Failing(NoneCompressor):
    """Fails when it is told to, at the second gradient."""

    wanted = False
    seen = 0

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        del context
        Failing.seen += 1
        if Failing.wanted and Failing.seen == 2:
            raise MemoryError("no room")
        return tensor * 2


class FailingAtFirst(NoneCompressor):
    """Fails once where it is told to."""

    wanted = False

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if FailingAtFirst.wanted:
            FailingAtFirst.wanted = False
            raise MemoryError("no room")
        return tensor, None


def check_the_rest_of_a_group_is_sent_by_the_step_that_is_made_again() -> None:
    """Of a group that is sparse in part, which has been sent."""
    for _ in range(2):
        table = torch.nn.Embedding(4, 3, sparse=True)
        dense = torch.nn.Parameter(torch.ones(2))
        both = [table.weight, dense]
        plain = torch.optim.SGD(both, lr=0.0)
        optimizer = hvd.DistributedOptimizer(
            plain, op=hvd.Sum, groups=[both], compression=FailingAtFirst
        )
        FailingAtFirst.wanted = hvd.rank() == 0
        with pytest.raises(MemoryError) if FailingAtFirst.wanted else contextlib.nullcontext():
            run_backward(table(torch.tensor([hvd.rank()])).sum() + dense.sum())
        optimizer.step()
        assert dense.grad is not None
        assert dense.grad.tolist() == [hvd.size()] * 2
        assert table.weight.grad is not None
        assert table.weight.grad.to_dense().sum() == 3 * hvd.size()


def check_a_gradient_that_could_not_be_decompressed_is_not_sent_again() -> None:
    model, optimizer = model_and_optimizer(compression=Failing)
    for number in range(3):
        Failing.wanted, Failing.seen = number == 1, 0
        optimizer.zero_grad()
        run_backward(model(torch.full((1, 1), 10.0**number)).sum())
        if Failing.wanted:
            with pytest.raises(MemoryError):
                optimizer.step()
        optimizer.step()
        assert gradients(model) == [2 * 10.0**number * hvd.size()] * 3, number


class OwnAtFirst:
    """`Memory.OWN`, at the second look an exception as of a signal's handler."""

    looks = 0

    @property
    def OWN(self) -> Memory:  # noqa: N802 - the name that is looked up
        self.looks += 1
        if self.looks == 2:
            raise KeyboardInterrupt
        return Memory.OWN

    def __getattr__(self, name: str) -> Any:
        return getattr(Memory, name)


class NotCleared(dict[Any, Any]):
    """Gradients that have been counted, and cannot be forgotten for an exception as above."""

    def clear(self) -> None:
        raise KeyboardInterrupt


@contextlib.contextmanager
def interrupted_afterwards(optimizer: Any) -> Iterator[None]:
    """Ends a step as Ctrl-C does when all has landed and some of it has been forgotten."""
    reducer = optimizer._reducer
    if isinstance(reducer, BucketReducer):
        seen, reducer._seen = reducer._seen, NotCleared(reducer._seen)
        yield
        reducer._seen = seen
        return
    with mock.patch("horovod.torch.gradients.Memory", OwnAtFirst()):
        yield


def check_a_step_that_is_interrupted_as_it_is_forgotten_sends_nothing_again() -> None:
    for options in with_buckets({}, {"groups": 1}):
        bucket = {"bucket_cap_mb": 0} if "gradient_as_bucket_view" in options else {}
        model, optimizer = model_and_optimizer(**options, **bucket)
        for number in range(4):
            optimizer.zero_grad()
            run_backward(model(torch.full((1, 1), 10.0**number)).sum())
            if number == 1 and hvd.rank() == 0:
                with interrupted_afterwards(optimizer), pytest.raises(KeyboardInterrupt):
                    optimizer.synchronize()
                with pytest.raises(AssertionError, match=r"zero_grad\(\) was called"):
                    optimizer.zero_grad()
            optimizer.step()
            assert gradients(model) == [10.0**number * hvd.size()] * 3, (options, number)


def check_a_group_whose_members_are_being_noted_is_sent_once() -> None:
    for at, before in itertools.product((1, 2, 3), (True, False)):
        model, optimizer = model_and_optimizer(groups=1)
        note = GradientSender._note
        noted: list[Any] = []

        def raising(self: Any, *given: Any) -> None:
            noted.append(given)  # noqa: B023 - called within the loop
            if len(noted) == at and before:  # noqa: B023 - as above
                raise KeyboardInterrupt
            if len(noted) == at:  # noqa: B023 - as above
                given[0].flight = given[1]  # the first step of it
                raise KeyboardInterrupt
            note(self, *given)  # noqa: B023 - as above

        for number in range(3):
            optimizer.zero_grad()
            interrupts = number == 1 and hvd.rank() == 0
            patched = mock.patch.object(GradientSender, "_note", raising)
            with patched if interrupts else contextlib.nullcontext():
                expected = pytest.raises(KeyboardInterrupt)
                with expected if interrupts else contextlib.nullcontext():
                    run_backward(model(torch.full((1, 1), 10.0**number)).sum())
            optimizer.step()
            assert gradients(model) == [10.0**number * hvd.size()] * 3, (at, before, number)
