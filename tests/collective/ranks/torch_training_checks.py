"""Training with the PyTorch front end: groups, sparse gradients, Adasum."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.torch.adasum import combine_all, gather_and_combine
from horovod.torch.compression import NoneCompressor
from horovod.torch.started import STARTED


def small_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def everyones_data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(hvd.size(), 6, 4, generator=generator)
    return inputs, inputs.sum(-1, keepdim=True)


def train(
    model: torch.nn.Module, optimizer: Any, inputs: torch.Tensor, targets: torch.Tensor
) -> list[torch.Tensor]:
    for _ in range(3):
        optimizer.zero_grad()
        run_backward(torch.nn.functional.mse_loss(model(inputs), targets))
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def assert_same(ours: list[torch.Tensor], theirs: list[torch.Tensor], tolerance: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def check_groups_of_gradients() -> None:
    inputs, targets = everyones_data()
    alone = small_model()
    expected = train(
        alone,
        torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9),
        inputs.flatten(0, 1),
        targets.flatten(0, 1),
    )

    def trained(choose: Callable[[torch.nn.Module], Any], **options: Any) -> list[torch.Tensor]:
        model = small_model()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
            named_parameters=model.named_parameters(),
            groups=choose(model),
            **options,
        )
        return train(model, optimizer, inputs[hvd.rank()], targets[hvd.rank()])

    for groups in (1, 2, 3, 100):
        assert_same(trained(lambda _, n=groups: n), expected, 1e-6)  # type: ignore[misc]
    assert_same(trained(lambda m: [list(m.parameters())[1:3]]), expected, 1e-6)
    assert_same(
        trained(lambda m: [list(m.parameters())], compression=hvd.Compression.fp16), expected, 1e-2
    )
    with pytest.warns(DeprecationWarning, match="has been replaced by `groups`"):
        assert_same(trained(lambda _: None, num_groups=2), expected, 1e-6)


def check_a_group_with_a_parameter_that_gets_no_gradient() -> None:
    used, unused = (torch.nn.Linear(2, 1, bias=False) for _ in range(2))
    frozen = torch.nn.Parameter(torch.ones(1), requires_grad=False)
    parameters = [*used.parameters(), *unused.parameters(), frozen]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=1.0), groups=[parameters], backward_passes_per_step=2
    )
    for _ in range(2):
        for _ in range(2):
            run_backward(used(torch.ones(1, 2)).sum() * (hvd.rank() + 1))
        optimizer.synchronize()
        assert used.weight.grad is not None
        assert used.weight.grad.tolist() == [[hvd.size() + 1.0] * 2]
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad()


def embedding_gradient(optimize: Callable[..., Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of an embedding in which every rank looks up rows of its own, twice."""
    table = torch.nn.Embedding(6, 2, sparse=True)
    hvd.broadcast_parameters(table.state_dict(), 0)
    before = table.weight.detach().clone()
    optimizer = optimize(torch.optim.SGD(table.parameters(), lr=1.0))
    for _ in range(2):
        optimizer.zero_grad()
        run_backward(table(torch.tensor([0, hvd.rank() + 1])).sum())
        optimizer.step()
    return before, table.weight.detach()


def check_sparse_gradients() -> None:
    for options in ({}, {"sparse_as_dense": True}, {"sparse_as_dense": True, "groups": 1}):
        for op in (hvd.Average, hvd.Sum):
            before, after = embedding_gradient(
                lambda inner, op=op, options=options: hvd.DistributedOptimizer(
                    inner, op=op, **options
                )
            )
            moved = (before - after)[:, 0] / 2
            share = 1 / hvd.size() if op == hvd.Average else 1.0
            expected = [hvd.size() * share] + [
                share if row < hvd.size() else 0.0 for row in range(5)
            ]
            torch.testing.assert_close(moved, torch.tensor(expected))


def check_gradients_that_travel_dense_are_sparse_again() -> None:
    for options in (
        {},
        {"groups": 1},
        {"compression": hvd.Compression.fp16},
        {"gradient_as_bucket_view": True},
    ):
        table = torch.nn.Embedding(6, 2, sparse=True)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SparseAdam(table.parameters(), lr=0.1),
            sparse_as_dense=True,
            op=hvd.Sum,
            **options,
        )
        for everyone in (True, False):
            optimizer.zero_grad()
            if everyone or hvd.rank() == 0:
                run_backward(table(torch.tensor([2, 2, 5])).sum())
            optimizer.synchronize()
            gradient = table.weight.grad
            assert gradient is not None
            assert gradient.layout == torch.sparse_coo, options
            assert gradient.sparse_dim() == 1
            summed = float(hvd.size() if everyone else 1)
            assert gradient.to_dense()[:, 0].tolist() == [0, 0, 2 * summed, 0, 0, summed]
            with optimizer.skip_synchronize():
                optimizer.step()


def check_a_sparse_gradient_that_some_ranks_lack() -> None:
    table = torch.nn.Embedding(3, 1, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0), op=hvd.Sum)
    for everyone in (True, False):
        optimizer.zero_grad()
        if everyone or hvd.rank() == 0:
            run_backward(table(torch.tensor([1])).sum())
        optimizer.synchronize()
        gradient = table.weight.grad
        assert gradient is not None
        expected = float(hvd.size() if everyone else 1)
        assert gradient.to_dense().flatten().tolist() == [0.0, expected, 0.0]
        with optimizer.skip_synchronize():
            optimizer.step()


def check_sparse_allreduce() -> None:
    mine = torch.sparse_coo_tensor(
        torch.tensor([[hvd.rank(), 0], [1, 0]]),
        torch.tensor([1.0 + hvd.rank(), 1.0]),
        (hvd.size(), 2),
    )
    expected = torch.zeros(hvd.size(), 2)
    for rank in range(hvd.size()):
        expected[rank, 1] += 1.0 + rank
        expected[0, 0] += 1.0
    summed = hvd.sparse_allreduce_async(mine, name="sparse", op=hvd.Sum)()
    assert torch.equal(summed.to_dense(), expected)
    mean = hvd.sparse_allreduce_async(mine, "sparse", hvd.Average)()
    torch.testing.assert_close(mean.to_dense(), expected / hvd.size())
    nothing = torch.zeros(2, 3, dtype=torch.float64).to_sparse()
    assert hvd.sparse_allreduce_async(nothing, None, hvd.Sum)().to_dense().sum() == 0
    with pytest.raises(ValueError, match="takes sparse COO tensors"):
        hvd.sparse_allreduce_async(torch.ones(2), "dense", hvd.Sum)
    with pytest.raises(ValueError, match="supports only hvd"):
        hvd.sparse_allreduce_async(mine, "maximum", hvd.Max)
    # Values that cannot be sent; the indices have been, and their name is free again.
    odd = torch.sparse_coo_tensor(mine._indices(), mine._values().to(torch.complex64), mine.shape)
    under_way = STARTED.newest.under_way()
    with pytest.raises(ValueError, match="ComplexFloatTensor is not supported"):
        hvd.sparse_allreduce_async(odd, "sparse", hvd.Sum)
    assert STARTED.newest.under_way() == under_way
    assert torch.equal(hvd.sparse_allreduce_async(mine, "sparse", hvd.Sum)().to_dense(), expected)


def check_adasum_of_tensors() -> None:
    def tensor_of(rank: int) -> torch.Tensor:
        return torch.randn(3, 5, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)

    if hvd.size() & (hvd.size() - 1):
        with pytest.raises(NotImplementedError, match="non-power of 2 ranks"):
            hvd.allreduce(tensor_of(0), op=hvd.Adasum)
        with pytest.raises(NotImplementedError, match="non-power of 2 ranks"):
            hvd.DistributedOptimizer(
                torch.optim.SGD(small_model().parameters(), lr=1.0), op=hvd.Adasum
            )
        return
    mine = tensor_of(hvd.rank())
    expected = combine_all([tensor_of(rank) for rank in range(hvd.size())])
    torch.testing.assert_close(hvd.allreduce(mine, op=hvd.Adasum), expected)
    scaled = hvd.allreduce(mine, op=hvd.Adasum, prescale_factor=2.0, postscale_factor=0.5)
    torch.testing.assert_close(scaled, expected)
    work = mine.clone()
    assert hvd.allreduce_(work, op=hvd.Adasum) is work
    torch.testing.assert_close(work, expected)
    # The same tensor everywhere is its own adaptive sum; orthogonal ones are added.
    torch.testing.assert_close(hvd.allreduce(torch.ones(4), op=hvd.Adasum), torch.ones(4))
    unit = torch.eye(hvd.size(), dtype=torch.float32)[hvd.rank()]
    torch.testing.assert_close(hvd.allreduce(unit, op=hvd.Adasum), torch.ones(hvd.size()))
    assert hvd.allreduce(torch.zeros(3), op=hvd.Adasum).tolist() == [0.0] * 3
    with pytest.raises(ValueError, match="floating-point"):
        hvd.allreduce(torch.ones(2, dtype=torch.int64), op=hvd.Adasum)


def check_adasum_of_any_length_and_type() -> None:
    """Many at once, short ones together; in place and not, in memory of any order."""
    if hvd.size() & (hvd.size() - 1):
        return

    def tensor_of(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        generator = torch.Generator().manual_seed(rank + 100 * count)
        common = torch.linspace(-1, 1, 3 * count).view(3, count)
        return (common + torch.randn(3, count, generator=generator)).to(dtype)

    dtypes = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    cases = [(count, dtype) for count in (0, 1, 50, 3_000, 100_000) for dtype in dtypes]
    started = []
    for count, dtype in cases:
        mine = tensor_of(hvd.rank(), count, dtype)
        turned = mine.t().contiguous().t()
        name = f"{count} {dtype}"
        started.append(
            (
                hvd.allreduce_async(mine, op=hvd.Adasum, name=name),
                hvd.allreduce_async_(turned, op=hvd.Adasum, name=f"{name} in place"),
                turned,
            )
        )
    for (count, dtype), (handle, in_place, turned) in zip(cases, started, strict=True):
        expected = combine_all([tensor_of(rank, count, dtype) for rank in range(hvd.size())])
        torch.testing.assert_close(hvd.synchronize(handle), expected)
        assert hvd.synchronize(in_place) is turned
        torch.testing.assert_close(turned, expected)


def check_adasum_with_compression_and_a_gradient() -> None:
    if hvd.size() & (hvd.size() - 1):
        return
    same = torch.arange(6.0, requires_grad=True)
    summed = hvd.allreduce(same, op=hvd.Adasum, compression=hvd.Compression.fp16)
    torch.testing.assert_close(summed, same)
    run_backward(summed.sum())
    assert same.grad is not None
    assert same.grad.tolist() == [1.0] * 6


def check_adasum_where_a_rank_has_joined() -> None:
    """Its zeros change nothing."""
    if hvd.size() & (hvd.size() - 1):
        return
    rest = list(range(hvd.size() - 1))
    if hvd.rank() in rest:
        unit = torch.eye(hvd.size())[hvd.rank()]
        summed = hvd.allreduce(unit, op=hvd.Adasum, name="without one")
        assert summed.tolist() == [1.0 if rank in rest else 0.0 for rank in range(hvd.size())]
        way_of_gpus = gather_and_combine([unit], list, "so", (1.0, 1.0), hvd.global_process_set)
        assert hvd.synchronize(way_of_gpus)[0].tolist() == summed.tolist()
    hvd.join()


def check_adasum_as_gpus_do_it() -> None:
    """Any type and length, by a process set too."""
    if hvd.size() & (hvd.size() - 1):
        return
    last = hvd.add_process_set([hvd.size() - 1])
    for process_set in (hvd.global_process_set, last):
        if not process_set.included():
            continue
        members = process_set.ranks
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            for shape in ((), (0,), (3,), (2, 5)):
                of_ranks = [torch.full(shape, 1.0 + rank, dtype=dtype) for rank in members]
                mine = of_ranks[members.index(hvd.rank())].clone()
                handle = gather_and_combine([mine, mine], list, None, (2.0, 0.5), process_set)
                expected = combine_all(of_ranks)
                for summed in hvd.synchronize(handle):
                    torch.testing.assert_close(summed, expected)
                assert torch.equal(mine, of_ranks[members.index(hvd.rank())])
    hvd.remove_process_set(last)


def check_adasum_optimizer() -> None:
    if hvd.size() & (hvd.size() - 1):
        return
    inputs, targets = everyones_data()
    model = small_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        op=hvd.Adasum,
    )
    before = [parameter.detach().clone() for parameter in model.parameters()]
    steps = []
    for rank in range(hvd.size()):  # what each rank's own step changes
        copy = small_model()
        own = torch.optim.Adam(copy.parameters(), lr=0.1)
        run_backward(torch.nn.functional.mse_loss(copy(inputs[rank]), targets[rank]))
        own.step()
        steps.append([p.detach() - b for p, b in zip(copy.parameters(), before, strict=True)])
    run_backward(torch.nn.functional.mse_loss(model(inputs[hvd.rank()]), targets[hvd.rank()]))
    optimizer.synchronize()
    optimizer.step()
    expected = [start + combine_all(deltas) for start, *deltas in zip(before, *steps, strict=True)]
    assert_same([parameter.detach() for parameter in model.parameters()], expected, 1e-6)
    with pytest.raises(AssertionError, match="not supported when using Adasum"):
        optimizer.skip_synchronize().__enter__()
    train(model, optimizer, inputs[hvd.rank()], targets[hvd.rank()])
    state = hvd.allgather_object([p.detach() for p in model.parameters()])
    assert_same(state[0], state[-1], 0.0)


def check_every_optimizers_state_can_be_broadcast() -> None:
    tried = []
    for name, kind in sorted(vars(torch.optim).items()):
        if not isinstance(kind, type) or name in ("Optimizer", "LBFGS", "SparseAdam"):
            continue
        torch.manual_seed(hvd.rank())
        model = torch.nn.Linear(3, 2, bias=name != "Muon")
        optimizer = kind(model.parameters(), lr=0.1 / (hvd.rank() + 1))
        steps = 2 if hvd.rank() == 0 else hvd.rank() - 1  # rank 1 has no state yet
        for _ in range(steps):
            optimizer.zero_grad()
            run_backward(model(torch.randn(4, 3)).sum())
            optimizer.step()
        group, state = optimizer.param_groups[0], optimizer.state
        hvd.broadcast_optimizer_state(optimizer, 0)
        assert optimizer.param_groups[0] is group, name
        assert optimizer.state is state, name
        everyones = hvd.allgather_object(optimizer.state_dict())
        assert repr(everyones[0]) == repr(everyones[hvd.rank()]), name
        tried.append(name)
    assert {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"} <= set(tried)


def check_groups_that_are_not_usable_are_refused() -> None:
    model = torch.nn.Linear(2, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    weight, _ = model.parameters()
    for groups, text in (
        (-1, "non-negative integer"),
        (0, "non-negative integer"),
        ("two", "non-negative integer"),
        ([["weight"]], "must consist of torch.Tensor"),
        ([weight], "must consist of torch.Tensor"),
        ([[weight], [weight]], "only appear once"),
    ):
        with pytest.raises(ValueError, match=text):
            hvd.DistributedOptimizer(sgd, groups=groups)


def check_a_compressor_of_the_users() -> None:
    class Halving(NoneCompressor):
        @staticmethod
        def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
            return tensor / 2, "half"

        @staticmethod
        def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
            assert ctx == "half"
            return tensor * 2

    assert hvd.allreduce(torch.ones(2), compression=Halving).tolist() == [1.0, 1.0]
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), compression=Halving
    )
    run_backward(model(torch.ones(1, 2)).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[1.0, 1.0]]
