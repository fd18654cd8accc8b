"""The PyTorch front end: collectives, gradients and the distributed optimizer."""

import copy
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.array as hvd_array
import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod._collectives import COLLECTIVES
from horovod._session import SESSION
from horovod.torch.started import STARTED

DTYPES = {
    torch.uint8: 0,
    torch.int8: 0,
    torch.int16: 0,
    torch.int32: 0,
    torch.int64: 0,
    torch.float16: 1,
    torch.bfloat16: 1,
    torch.float32: 1,
    torch.float64: 1,
}


def check_front_ends_share_one_runtime() -> None:
    assert SESSION.member.runtime.transport == os.environ["HOROVOD_TRANSPORT"]
    hvd.init()
    assert hvd.is_initialized()
    assert hvd.rank() == hvd_array.rank()
    assert hvd.size() == hvd_array.size() > 1


def check_allreduce_of_every_type_and_op() -> None:
    for dtype, floating in DTYPES.items():
        ours = [torch.arange(6).reshape(2, 3).remainder(4) + r for r in range(hvd.size())]
        stack = torch.stack(ours)
        mine = ours[hvd.rank()].to(dtype)
        for op, expected in (
            (hvd.Sum, stack.sum(0)),
            (hvd.Min, stack.min(0).values),
            (hvd.Max, stack.max(0).values),
            (hvd.Product, stack.prod(0)),
        ):
            result = hvd.allreduce(mine, op=op)
            assert result.dtype == dtype
            assert torch.equal(result, expected.to(dtype)), f"{dtype} {op}"
        if floating:
            mean = stack.to(torch.float64).mean(0)
            torch.testing.assert_close(hvd.allreduce(mine), mean.to(dtype), rtol=1e-2, atol=1e-2)
    either = hvd.allreduce(torch.tensor([hvd.rank() == 0, False]), op=hvd.Max)
    assert either.tolist() == [True, False]


def check_allgather_and_broadcast_of_every_type() -> None:
    for dtype in (*DTYPES, torch.bool):
        mine = torch.full((hvd.rank(), 2), hvd.rank()).to(dtype)
        expected = torch.cat([torch.full((r, 2), r) for r in range(hvd.size())]).to(dtype)
        result = hvd.allgather(mine)
        assert result.dtype == dtype
        assert torch.equal(result, expected)
        for root in range(hvd.size()):
            sent = hvd.broadcast(torch.tensor([hvd.rank(), 1]).to(dtype), root)
            assert torch.equal(sent, torch.tensor([root, 1]).to(dtype))


def check_scalars_and_empty_tensors() -> None:
    assert hvd.allreduce(torch.tensor(2.0), op=hvd.Sum).item() == 2.0 * hvd.size()
    assert hvd.broadcast(torch.tensor(hvd.rank()), 1).item() == 1
    assert hvd.allreduce(torch.empty(0, 3)).shape == (0, 3)
    assert hvd.allgather(torch.empty(0, 3)).shape == (0, 3)


def check_non_contiguous_tensors() -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(hvd.allreduce(matrix.t(), op=hvd.Max), matrix.t())
    work = torch.zeros(2, 3)
    work.t().copy_(torch.arange(6.0).reshape(3, 2))
    expected = work * hvd.size()
    assert hvd.allreduce_(work.t(), op=hvd.Sum).shape == (3, 2)
    assert torch.equal(work, expected)
    hvd.broadcast_(work[:, ::2], 0)
    channels_last = torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)
    assert torch.equal(hvd.allreduce_(channels_last), torch.ones(1, 2, 3, 4))


def check_in_place_gives_the_same_tensor_back() -> None:
    tensor = torch.full((3,), float(hvd.rank()))
    assert hvd.allreduce_(tensor, op=hvd.Max) is tensor
    assert tensor.tolist() == [hvd.size() - 1] * 3
    handle = hvd.broadcast_async_(torch.full((2,), hvd.rank()), 0)
    assert hvd.synchronize(handle).tolist() == [0, 0]
    handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
    assert hvd.synchronize(handle) is tensor
    assert hvd.synchronize(handle) is None
    leaf = torch.nn.Parameter(torch.full((2,), float(hvd.rank())))
    hvd.broadcast_(leaf, hvd.size() - 1)
    assert leaf.tolist() == [hvd.size() - 1] * 2


def check_average_is_deprecated_but_works() -> None:
    with pytest.warns(DeprecationWarning, match="has been replaced with `op`") as warned:
        result = hvd.allreduce(torch.ones(2), average=False)
    assert warned[0].filename == __file__  # Python shows it of scripts, and of nothing they call
    assert result.tolist() == [hvd.size()] * 2
    with (
        pytest.warns(DeprecationWarning, match="has been replaced"),
        pytest.raises(ValueError, match="supersedes average"),
    ):
        hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum)


def check_compression() -> None:
    values = torch.tensor([1.0, 2.5, -3.0])
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        result = hvd.allreduce(values, op=hvd.Sum, compression=compression)
        assert result.dtype == torch.float32
        assert torch.equal(result, values * hvd.size())
    whole = torch.tensor([7])
    assert hvd.allreduce(whole, op=hvd.Max, compression=hvd.Compression.fp16).dtype == torch.int64


def check_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Tensor type torch\.ComplexFloatTensor is not supported"):
        hvd.allreduce(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="layout"):
        hvd.allreduce(torch.eye(2).to_sparse())
    with pytest.raises(ValueError, match="on the device meta has no data"):
        hvd.allreduce(torch.empty(2, device="meta"))
    with pytest.raises(ValueError, match=r"pass torch\.view_as_real\(tensor\)"):
        hvd.broadcast(torch.zeros(2, dtype=torch.complex64), 0)
    if hasattr(torch, "uint16"):  # not in PyTorch 2.0
        with pytest.raises(
            ValueError, match=r"Tensor is not supported; .* tensor\.view\(torch\.uint8"
        ):
            hvd.allgather(torch.zeros(2, dtype=torch.uint16))
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    calls: list[Callable[[], Any]] = [
        lambda: hvd.allreduce(nested),
        lambda: hvd.allreduce_async_(nested),
        lambda: hvd.broadcast_(nested, 0),
        lambda: hvd.allgather(nested),
        lambda: hvd.alltoall(nested),
        lambda: hvd.reducescatter(nested),
        lambda: hvd.grouped_allreduce([nested]),
        lambda: hvd.grouped_allgather([nested]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="Nested tensors are not supported"):
            call()
    with pytest.raises(TypeError, match="not on list"):
        hvd.allreduce_async([1.0])  # type: ignore[arg-type]


def check_gradient_of_allreduce() -> None:
    for op, factor in ((hvd.Sum, hvd.size() * (hvd.size() + 1) / 2), (hvd.Average, None)):
        tensor = torch.ones(3, requires_grad=True)
        reduced = hvd.allreduce(tensor, op=op)
        run_backward((reduced * (hvd.rank() + 1)).sum())
        expected = factor if factor is not None else (hvd.size() + 1) / 2
        assert tensor.grad is not None
        assert tensor.grad.tolist() == [expected] * 3


def check_gradient_of_allgather() -> None:
    rows = hvd.rank() + 1
    tensor = torch.ones(rows, 2, requires_grad=True)
    gathered = hvd.allgather(tensor, name="gathered")
    weights = torch.arange(float(len(gathered))).unsqueeze(1)
    run_backward((gathered * weights).sum())
    before = sum(range(1, hvd.rank() + 1))
    assert tensor.grad is not None
    assert tensor.grad[:, 0].tolist() == [float(before + i) for i in range(rows)]


def check_gradient_of_broadcast() -> None:
    tensor = torch.ones(2, requires_grad=True)
    run_backward((hvd.broadcast(tensor, 1) * (hvd.rank() + 1)).sum())
    assert tensor.grad is not None
    mean = (hvd.size() + 1) / 2
    assert tensor.grad.tolist() == ([mean] * 2 if hvd.rank() == 1 else [0.0] * 2)


def check_infinite_gradients_of_broadcast_are_zeros_off_the_root() -> None:
    tensor = torch.ones(2, requires_grad=True)
    run_backward((hvd.broadcast(tensor, 1) * float("inf")).sum())
    assert tensor.grad is not None
    assert tensor.grad.tolist() == [float("inf") if hvd.rank() == 1 else 0.0] * 2


def check_second_derivative_of_broadcast() -> None:
    """All ranks take part, those too whose first derivative is zero."""
    tensor = torch.tensor([2.0, 3.0], requires_grad=True)
    sent = hvd.broadcast(tensor, 1, name="sent")
    (first,) = torch.autograd.grad((sent**3).sum(), tensor, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), tensor)
    is_root = hvd.rank() == 1
    assert first.tolist() == ([12.0, 27.0] if is_root else [0.0, 0.0])
    of_mean = torch.tensor([12.0, 18.0]) / hvd.size()  # the root's sum alone depends on it
    torch.testing.assert_close(second, of_mean if is_root else torch.zeros(2))


def check_broadcast_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for value in model.state_dict().values():
            value.fill_(hvd.rank() + 1)
    hvd.broadcast_parameters(model.state_dict(), 1)
    for value in model.state_dict().values():
        assert torch.all(value == 2)
    hvd.broadcast_parameters(list(model.named_parameters()), 0)
    hvd.broadcast_parameters([torch.zeros(2)], 0)
    value = torch.full((2,), float(hvd.rank()))
    hvd.broadcast_parameters({"absent": None, "value": value}, 1)
    assert value.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="invalid params of type"):
        hvd.broadcast_parameters(model.named_parameters(), 0)


def on_the_way() -> int:
    """Operations that nobody has waited for."""
    return STARTED.newest.under_way() + len(COLLECTIVES._pending)


def check_broadcasts_that_are_refused_leave_nothing_on_its_way() -> None:
    before = on_the_way()
    value = torch.full((2,), float(hvd.rank()))
    for other, match in (
        (3, "'b' is of type"),
        (torch.ones(1, dtype=torch.complex64), "ComplexFloat"),
    ):
        with pytest.raises(ValueError, match=match):
            hvd.broadcast_parameters({"a": value, "b": other}, 0)
        assert on_the_way() == before
        hvd.broadcast_parameters({"a": value}, 0)
    # What one of them says on all ranks comes when the others have arrived as well.
    unlike = {"a": torch.ones(2 + hvd.rank()), "b": torch.full((1 << 20,), float(hvd.rank()))}
    with pytest.raises(hvd.HorovodInternalError, match="Mismatched BROADCAST tensor shapes"):
        hvd.broadcast_parameters(unlike, 1)
    assert on_the_way() == before
    assert unlike["b"].eq(1).all()


def check_broadcast_optimizer_state() -> None:
    for make in (
        lambda p: torch.optim.SGD(p, lr=0.1 * (hvd.rank() + 1), momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=0.1 * (hvd.rank() + 1), amsgrad=True),
        lambda p: torch.optim.Adagrad(p, lr=0.1 * (hvd.rank() + 1)),
    ):
        torch.manual_seed(hvd.rank())
        model = torch.nn.Linear(3, 2)
        optimizer = make(model.parameters())
        if hvd.rank() == 0:  # the others have no state yet
            model(torch.randn(4, 3)).sum().backward()
            optimizer.step()
        root_state = hvd.broadcast_object(copy.deepcopy(optimizer.state_dict()), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        state = optimizer.state_dict()
        assert state["param_groups"] == root_state["param_groups"]
        assert state["state"].keys() == root_state["state"].keys()
        for index, entries in root_state["state"].items():
            for key, value in entries.items():
                ours = state["state"][index][key]
                assert torch.equal(ours, value) if torch.is_tensor(value) else ours == value
    lbfgs = torch.optim.LBFGS(torch.nn.Linear(1, 1).parameters())
    with pytest.raises(ValueError, match=r"cannot broadcast torch\.optim\.LBFGS state"):
        hvd.broadcast_optimizer_state(lbfgs, 0)


def check_objects_with_tensors_and_lambdas() -> None:
    function = hvd.broadcast_object(lambda x: x + 1 if hvd.rank() == 0 else None)
    assert callable(function)
    gathered = hvd.allgather_object({"rank": hvd.rank(), "tensor": torch.ones(2)})
    assert [entry["rank"] for entry in gathered] == list(range(hvd.size()))


def check_data_loaders_may_fork() -> None:
    """Workers of a data loader know their rank, and are told that they cannot run collectives."""

    class Dataset(torch.utils.data.Dataset[tuple[int, str]]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[int, str]:
            hvd.init()  # as a worker's first call may do
            try:
                hvd.allreduce(torch.ones(1))
            except RuntimeError as error:
                return hvd.rank(), str(error)
            return hvd.rank(), ""

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's and Python's opinions of forking with threads
        loader = torch.utils.data.DataLoader(
            Dataset(), num_workers=1, batch_size=None, multiprocessing_context="fork"
        )
        for rank, message in loader:
            assert rank == hvd.rank()
            assert "is a fork of process" in message
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def check_a_default_device_is_for_the_scripts_own_tensors() -> None:
    """Scripts set one, such as "cuda"; what the library makes for itself is not to go there."""
    rows = torch.ones(hvd.size(), 2, requires_grad=True)
    everyones = torch.ones(hvd.size())
    table = torch.nn.Embedding(3, 2, sparse=True)
    first, layer = torch.tensor([0]), torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(layer.parameters())
    if hvd.rank() == 0:
        run_backward(layer(torch.ones(1, 2)).sum())
        optimizer.step()
    wrapped = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0))
    with torch.device("meta"):
        assert torch.ones(1).is_meta
        hvd.broadcast_optimizer_state(optimizer, 0)
        for gathered in (hvd.allgather(rows), hvd.grouped_allgather([rows])[0]):
            run_backward(gathered.sum())
        run_backward(hvd.alltoall(rows, [1] * hvd.size())[0].sum())
        received, counts = hvd.alltoall(everyones, [1] * hvd.size())
        assert received.tolist() == counts.tolist() == [1] * hvd.size()
        run_backward(table(first).sum())
        wrapped.step()
        wrapped.zero_grad()
        wrapped.step()  # of gradients that are missing now
    assert rows.grad is not None
    assert rows.grad.tolist() == [[3.0, 3.0]] * hvd.size()
    assert optimizer.state[layer.weight]["step"] == 1
    assert all(value.is_cpu for value in optimizer.state[layer.weight].values())


def check_shutdown_and_init_again() -> None:
    for turn in range(50):
        hvd.shutdown()
        assert not hvd.is_initialized()
        hvd.init()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size(), turn
    hvd.shutdown()
    hvd.shutdown()
    with pytest.raises(ValueError, match=r"Horovod has not been initialized; use hvd\.init"):
        hvd.rank()
    hvd.init()
