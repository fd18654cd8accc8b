"""A script that no launcher has started: one rank, on which every call of Horovod's works."""

import contextlib
import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod._loader import _bindings
from horovod._session import SESSION
from horovod.torch.gradients import GradientReducer
from horovod.torch.gradients_in_flight import Gradient


def check_who_is_there() -> None:
    assert (hvd.rank(), hvd.local_rank(), hvd.cross_rank()) == (0, 0, 0)
    assert (hvd.size(), hvd.local_size(), hvd.cross_size()) == (1, 1, 1)
    assert hvd.is_homogeneous()


def check_every_operation() -> None:
    own = torch.arange(6.0).reshape(3, 2)
    for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
        assert torch.equal(hvd.allreduce(own, op=op), own)
        assert torch.equal(hvd.grouped_allreduce([own, own], op=op)[1], own)
        assert torch.equal(hvd.synchronize(hvd.allreduce_async(own, op=op)), own)
    scaled = hvd.allreduce(own, op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0)
    assert torch.equal(scaled, 6 * own)
    place = own.clone()
    assert hvd.allreduce_(place, op=hvd.Sum) is place
    assert torch.equal(hvd.allgather(own), own)
    assert torch.equal(hvd.grouped_allgather([own])[0], own)
    assert torch.equal(hvd.broadcast(own, 0), own)
    assert torch.equal(hvd.reducescatter(own), own)
    assert torch.equal(hvd.grouped_reducescatter([own])[0], own)
    assert torch.equal(hvd.alltoall(own), own)
    received, counts = hvd.alltoall(own, splits=[2])
    assert torch.equal(received, own[:2])
    assert counts.tolist() == [2]
    assert hvd.broadcast_object({"a": 1}, 0) == {"a": 1}
    hvd.barrier()
    sparse = hvd.sparse_allreduce_async(own.to_sparse(), "sparse", hvd.Average)()
    assert torch.equal(sparse.to_dense(), own)
    assert hvd.allgather_object("x") == ["x"]
    assert hvd.allreduce(own.bool(), op=hvd.Max).dtype == torch.bool
    assert hvd.allreduce(own, compression=hvd.Compression.bf16).dtype == torch.float32
    assert torch.equal(hvd.shared_empty(3).fill_(1), torch.ones(3))
    with pytest.raises(ValueError, match="invalid root rank 1"):
        hvd.broadcast(own, 1)
    assert hvd.join() == 0


def check_blocking_calls_take_one_call_of_the_core() -> None:
    own = torch.ones(3)
    runtime = SESSION.member.runtime
    for call in (
        lambda: hvd.allreduce(own),
        lambda: hvd.allreduce_(own, name="named"),
        lambda: hvd.broadcast(own, 0),
        lambda: hvd.allgather(own, output=torch.empty(3)),
        lambda: hvd.alltoall(own),
        lambda: hvd.reducescatter(own),
        hvd.barrier,
    ):
        before = runtime.fast_operations
        call()
        assert runtime.fast_operations == before + 1
    number = runtime.next_unnamed(_bindings.KINDS["broadcast"], 0)
    with pytest.raises(ValueError, match="invalid root rank 1"):
        hvd.broadcast_(own, 1)
    assert runtime.next_unnamed(_bindings.KINDS["broadcast"], 0) == number + 1


@contextlib.contextmanager
def whenever_membership_changes(call: Callable[[], None]) -> Iterator[None]:
    """Calls something in the middle of `init` and `shutdown`."""
    now = [False]
    SESSION.follow(lambda _: call() if now[0] else None)
    now[0] = True
    try:
        yield
    finally:
        now[0] = False


def check_handlers_of_signals_may_end_the_job() -> None:
    handled = []

    def handle(*_: object) -> None:
        hvd.shutdown()
        with pytest.raises(ValueError, match="signal's handler"):
            hvd.init()
        handled.append(hvd.is_initialized())

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with whenever_membership_changes(lambda: signal.raise_signal(signal.SIGUSR1)):
            hvd.shutdown()
            hvd.init()
    finally:
        signal.signal(signal.SIGUSR1, before)
    # The end that was wanted while the job was joined came after it.
    assert handled == [False, True, False]
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 1.0


def check_a_fork_does_not_wait_for_threads_that_it_does_not_have() -> None:
    ending, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        ending.set()
        go_on.wait()

    thread = threading.Thread(target=hvd.shutdown)
    with whenever_membership_changes(pause):
        thread.start()
        ending.wait()
        child = os.fork()
        if child == 0:
            hvd.shutdown()
            os._exit(0)
        deadline = time.monotonic() + 30
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.02)
        if ended == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        go_on.set()
        thread.join()
    hvd.init()
    assert ended == (child, 0)


def check_gradients() -> None:
    for call in (
        hvd.allreduce,
        hvd.allgather,
        hvd.reducescatter,
        hvd.alltoall,
        lambda tensor: hvd.broadcast(tensor, 0),
        lambda tensor: hvd.grouped_allreduce([tensor])[0],
    ):
        tensor = torch.ones(2, 2, requires_grad=True)
        run_backward((call(tensor) * 3).sum())
        assert tensor.grad is not None
        assert tensor.grad.tolist() == [[3.0, 3.0]] * 2


def check_training() -> None:
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"groups": 2**40},  # more than there are parameters
        {"groups": 1, "backward_passes_per_step": 2, "gradient_predivide_factor": 2.0},
        {"op": hvd.Adasum},
        {"gradient_as_bucket_view": True},
    )
    for options in kinds:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), hvd.SyncBatchNorm(4))
        plain = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        plain.load_state_dict(model.state_dict())
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        optimizer = hvd.DistributedOptimizer(
            optimizer, named_parameters=model.named_parameters(), **options
        )
        expected = torch.optim.SGD(plain.parameters(), lr=0.5, momentum=0.9)
        for _ in range(2):
            for each, steps in ((model, optimizer), (plain, expected)):
                steps.zero_grad(set_to_none=True)
                for _ in range(options.get("backward_passes_per_step", 1)):
                    run_backward(each(torch.arange(8.0).reshape(4, 2)).square().sum() * 0.01)
                steps.step()
        for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def check_elastic_state() -> None:
    model = torch.nn.Linear(2, 1)
    sampler = hvd.elastic.ElasticSampler(range(5), shuffle=False)
    state = hvd.elastic.TorchState(model, None, sampler=sampler, epoch=0)

    @hvd.elastic.run
    def train(state: Any) -> int:
        while state.epoch < 3:
            state.epoch += 1
            state.commit()
        if not lost:
            lost.append(True)
            state.epoch = 7
            raise hvd.HorovodInternalError("lost")
        return int(state.epoch)

    lost: list[bool] = []
    assert train(state) == 3  # what was committed
    assert list(sampler) == [0, 1, 2, 3, 4]


def check_a_failed_reduction_keeps_nothing_alive() -> None:
    class Failing(GradientReducer):
        def _land(self, gradient: Any) -> None:
            raise hvd.HorovodInternalError(f"{gradient.name} is lost")

    reducer = Failing.__new__(Failing)
    sent = Gradient(torch.nn.Parameter(torch.ones(1)), "a gradient", None)
    reducer._sent, reducer._gradients, reducer._failure = [sent], {}, None
    gone = weakref.ref(reducer)
    gc.disable()
    try:
        with pytest.raises(hvd.HorovodInternalError, match="a gradient is lost"):
            reducer.drain()
        del reducer
        assert gone() is None
    finally:
        gc.enable()


def check_again_and_again() -> None:
    for _ in range(200):
        hvd.shutdown()
        hvd.init()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 1.0
