"""The optimizer whose gradients live in buckets that all ranks of a host map."""

import math
import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

import horovod.torch as hvd
from horovod._session import SESSION
from horovod.common.exceptions import HorovodInternalError
from horovod.torch import buckets
from horovod.torch.bucket_layout import lay_out
from horovod.torch.buckets import bucket_bytes

SHARES = os.environ["HOROVOD_TRANSPORT"] == "shm"
Data = list[tuple[torch.Tensor, torch.Tensor]]


def make_model() -> torch.nn.Module:
    """Parameters of two types and of two memory formats, and one that gets no gradient.

    Those of the wide layers have more than 16 KiB each: what is smaller may be copied.
    """
    torch.manual_seed(3)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.layers = torch.nn.Sequential(
                *(torch.nn.Linear(20, 20) for _ in range(4)),
                *(torch.nn.Linear(20, 300), torch.nn.Linear(300, 20), torch.nn.Linear(20, 1)),
            )
            self.precise = torch.nn.Linear(20, 20, dtype=torch.float64)
            self.unused = torch.nn.Parameter(torch.ones(7))
            self.frozen = torch.nn.Parameter(torch.ones(7), requires_grad=False)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            images = inputs[:, :75].reshape(-1, 3, 5, 5)
            features = self.convolution(images).flatten(1)[:, :20]
            features = torch.tanh(self.precise(features.double())).float()
            result: torch.Tensor = self.layers(features)
            return result

    return Model()


def my_data(passes: int = 1) -> Data:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(hvd.size(), 6 * passes, 80, generator=generator)
    mine = inputs[hvd.rank()]
    return [(part, part.sum(-1, keepdim=True)) for part in mine.chunk(passes)]


def train(data: Data, *, set_to_none: bool = True, **options: Any) -> list[torch.Tensor]:
    """Three steps; returns the parameters, and the gradients of the last step."""
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=len(data),
        **options,
    )
    for _ in range(3):
        optimizer.zero_grad(set_to_none=set_to_none)
        for inputs, targets in data:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            torch.autograd.backward(loss)
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
    parameters = [parameter.detach() for parameter in model.parameters()]
    return parameters + [p.grad for p in model.parameters() if p.grad is not None]


def mapped() -> int:
    return SESSION.member.runtime.mapped_operations


def check_training_equals_that_with_gradients_elsewhere() -> None:
    for passes in (1, 3):
        data = my_data(passes)
        for options in (
            {},
            {"op": hvd.Sum},
            {"gradient_predivide_factor": 2.0},
            {"bucket_cap_mb": 0},
            {"bucket_cap_mb": 0.002},
            {"bucket_cap_mb": 1e18 if hvd.rank() else 0.002},
            {"set_to_none": False},
        ):
            before = mapped()
            ours = train(data, gradient_as_bucket_view=True, **options)
            assert (mapped() > before) == SHARES
            options.pop("bucket_cap_mb", None)
            theirs = train(data, **options)
            # Sums of two are the same in every order.
            exact: dict[str, Any] = {"rtol": 0.0, "atol": 0.0} if hvd.size() == 2 else {}
            torch.testing.assert_close(ours, theirs, **exact)


def check_gradients_are_views_whatever_zero_grad_does() -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), gradient_as_bucket_view=True
    )
    places = set()
    for turn in range(4):
        torch.autograd.backward(model(torch.ones(1, 4)).sum() * (hvd.rank() + 1))
        optimizer.step()
        weight, bias = model.weight.grad, model.bias.grad
        assert weight is not None
        assert bias is not None
        assert weight.untyped_storage().data_ptr() == bias.untyped_storage().data_ptr()
        assert (weight == (hvd.size() + 1) / 2).all()
        places.add((weight.data_ptr(), bias.data_ptr()))
        optimizer.zero_grad(set_to_none=turn % 2 == 0)
    assert len(places) == 1


def check_a_gradient_on_one_rank_alone_counts() -> None:
    layers = [torch.nn.Linear(2, 1, bias=False) for _ in range(hvd.size())]
    parameters = [layer.weight for layer in layers]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=0.1), op=hvd.Sum, gradient_as_bucket_view=True
    )
    for _ in range(2):
        optimizer.zero_grad()
        torch.autograd.backward(layers[hvd.rank()](torch.full((1, 2), hvd.rank() + 1.0)).sum())
        optimizer.synchronize()
        for rank, parameter in enumerate(parameters):
            assert parameter.grad is not None
            assert (parameter.grad == rank + 1).all()
        with optimizer.skip_synchronize():
            optimizer.step()


class Meeting(torch.autograd.Function):
    """All ranks meet in the backward pass, as those of a SyncBatchNorm do."""

    @staticmethod
    def forward(_context: Any, values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @staticmethod
    def backward(_context: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return hvd.allreduce(gradients[0], name="meeting", op=hvd.Sum)


def check_the_first_gradient_may_come_before_a_meeting_or_after_it() -> None:
    trunk, head = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([trunk, head], lr=0.0), op=hvd.Sum, gradient_as_bucket_view=True
    )
    for _ in range(3):
        optimizer.zero_grad()
        meeting: Any = Meeting  # PyTorch has not typed its method
        features = meeting.apply(trunk * 2)
        # Rank 0 comes to the head's gradient first, the others to the meeting.
        loss = (features * head).sum() if hvd.rank() == 0 else features.sum()
        loss.backward()
        optimizer.step()
        assert trunk.grad is not None
        assert head.grad is not None
        assert trunk.grad.tolist() == [2.0 * hvd.size() ** 2] * 4
        assert head.grad.tolist() == [2.0] * 4


def check_parameters_may_come_later() -> None:
    first, second = torch.nn.Linear(2, 1), torch.nn.Linear(1, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(first.parameters(), lr=0.1), gradient_as_bucket_view=True
    )
    for turn in range(2):
        optimizer.zero_grad()
        torch.autograd.backward(second(first(torch.full((1, 2), hvd.rank() + 1.0))).sum())
        optimizer.step()
        if turn == 0:
            second.zero_grad()
            optimizer.add_param_group({"params": second.parameters()})
    reduced = second.weight.grad
    assert reduced is not None
    assert reduced.any()
    assert torch.equal(reduced, hvd.allreduce(reduced))


def steps_with(change: Callable[[torch.nn.Module], object], *, mapped: bool) -> list[torch.Tensor]:
    """The gradients after two steps, a change, and two more, in double precision."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 2), torch.nn.Flatten(), torch.nn.Linear(27, 2000)
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-4),
        named_parameters=[(f"{mapped}.{name}", each) for name, each in model.named_parameters()],
        gradient_as_bucket_view=mapped,
    )
    for step in range(4):
        optimizer.zero_grad()
        first = next(model.parameters())
        inputs = torch.full((1, 2, 4, 4), hvd.rank() + 1.0, dtype=first.dtype)
        model(inputs).sum().backward()
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
        if step == 1:
            change(model)
    return [
        parameter.grad.double() for parameter in model.parameters() if parameter.grad is not None
    ]


def clamp_in_place(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.data = parameter.grad.data.clamp(-1e6, 1e6)


def take_other_memory(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.set_(parameter.grad.clone())  # type: ignore[call-overload]


def convert_without_gradients(model: torch.nn.Module) -> None:
    model.zero_grad(set_to_none=True)
    model.double()


def check_gradients_whose_memory_is_exchanged_are_reduced() -> None:
    changes: dict[str, Callable[[torch.nn.Module], object]] = {
        "clamp": clamp_in_place,
        "set": take_other_memory,
        "channels_last": lambda model: model.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        "double": lambda model: model.double(),
        "double without gradients": convert_without_gradients,
    }
    for name, change in changes.items():
        expected = steps_with(change, mapped=False)
        found = steps_with(change, mapped=True)
        assert len(found) == 4
        for ours, plain in zip(found, expected, strict=True):
            # Of float32, which three ranks add in the order that fusion gives.
            torch.testing.assert_close(
                ours, plain, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
            )


def check_parameters_without_elements() -> None:
    """They may be the first and the last, all of a type, and all of those that come later."""

    def trained(**options: Any) -> list[torch.Tensor]:
        torch.manual_seed(3)
        layer = torch.nn.Linear(3, 2)
        first, last = torch.zeros(0, 4), torch.zeros(0, dtype=torch.float64)
        empty = [torch.nn.Parameter(each) for each in (first, last, torch.zeros(2, 0))]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([empty[0], *layer.parameters(), empty[1]], lr=0.1, momentum=0.9),
            **options,
        )
        for turn in range(3):
            optimizer.zero_grad()
            loss = layer(torch.full((1, 3), hvd.rank() + 1.0)).square().sum()
            torch.autograd.backward(loss + sum(each.sum() for each in empty))
            optimizer.step()
            if turn == 0:
                empty[2].grad = None
                optimizer.add_param_group({"params": empty[2:]})
        for each in empty:
            assert each.grad is not None
            assert each.grad.shape == each.shape
        return [parameter.detach() for parameter in layer.parameters()]

    expected = trained()
    for cap in (None, 0):
        ours = trained(gradient_as_bucket_view=True, bucket_cap_mb=cap)
        torch.testing.assert_close(ours, expected)


def check_it_goes_on_after_a_new_start() -> None:
    model = torch.nn.Linear(40, 200)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.0), gradient_as_bucket_view=True
    )
    for _ in range(2):
        before = mapped()
        optimizer.zero_grad()
        torch.autograd.backward(model(torch.full((1, 40), hvd.rank() + 1.0)).sum())
        optimizer.step()
        assert model.weight.grad is not None
        assert (model.weight.grad == (hvd.size() + 1) / 2).all()
        assert mapped() - before == SHARES
        hvd.barrier()
        hvd.shutdown()
        hvd.init()


def check_a_new_rank_finds_all_unfrozen_that_others_have_unfrozen_one_by_one() -> None:
    def wrapped() -> Any:
        sgd = torch.optim.SGD(model.parameters(), lr=0.0)
        return hvd.DistributedOptimizer(sgd, gradient_as_bucket_view=True)

    model: Any = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    model.requires_grad_(requires_grad=False)
    optimizer = wrapped()
    for layer in (model[2], model[0], model[1], None):
        if layer is not None:
            layer.requires_grad_(requires_grad=True)
        else:
            hvd.shutdown()
            hvd.init()
            optimizer = optimizer if hvd.rank() == 0 else wrapped()
        optimizer.zero_grad()
        torch.autograd.backward(model(torch.ones(1, 4)).sum() * (hvd.rank() + 1))
        optimizer.step()
    assert model[2].bias.grad.tolist() == [(hvd.size() + 1) / 2] * 4


def check_a_bucket_that_could_not_be_sent_is_not_left_out_by_the_next_step() -> None:
    parameter = torch.nn.Parameter(torch.zeros(8))
    sgd = torch.optim.SGD([parameter], lr=1.0)
    optimizer = hvd.DistributedOptimizer(sgd, gradient_as_bucket_view=True)
    optimizer.step()  # makes the bucket
    refusing = mock.patch.object(buckets, "allreduce_async_", side_effect=ValueError("not now"))
    with refusing, pytest.raises(ValueError, match="not now"):
        torch.autograd.backward(parameter.sum() * (hvd.rank() + 1.0))
    with refusing, pytest.raises(ValueError, match="not now"):
        optimizer.step()
    optimizer.step()
    assert parameter.tolist() == [-(hvd.size() + 1) / 2] * 8


def check_sparse_gradients_have_to_travel_dense() -> None:
    def embed(**options: Any) -> torch.Tensor:
        table = torch.nn.Embedding(10, 3, sparse=True)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=0.1), gradient_as_bucket_view=True, **options
        )
        torch.autograd.backward(table(torch.tensor([hvd.rank(), hvd.rank(), 9])).sum())
        optimizer.synchronize()
        assert table.weight.grad is not None
        return table.weight.grad

    with pytest.raises(ValueError, match=r"gradient of 'allreduce.noname.0.0' is sparse"):
        embed()
    gradient = embed(sparse_as_dense=True, op=hvd.Sum).to_dense()[:, 0]
    assert gradient.tolist() == [2] * hvd.size() + [0] * (9 - hvd.size()) + [hvd.size()]


def check_what_cannot_be_is_refused() -> None:
    parameters = list(torch.nn.Linear(2, 2).parameters())

    def wrap(**options: Any) -> Any:
        return hvd.DistributedOptimizer(
            torch.optim.SGD(parameters, lr=0.1), gradient_as_bucket_view=True, **options
        )

    for options, text in (
        ({"compression": hvd.Compression.fp16}, "excludes compression=FP16Compressor"),
        ({"op": hvd.Adasum}, "excludes op=Adasum"),
        ({"groups": 2, "op": hvd.Adasum}, "excludes op=Adasum and groups"),
        ({"bucket_cap_mb": -1}, "must be finite and not negative, got -1"),
        ({"bucket_cap_mb": math.inf}, "must be finite and not negative, got inf"),
    ):
        with pytest.raises(ValueError, match=text):
            wrap(**options)


def check_a_size_without_buckets_is_said_to_have_no_effect() -> None:
    with pytest.warns(UserWarning, match="bucket_cap_mb has no effect without"):
        hvd.DistributedOptimizer(
            torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1), bucket_cap_mb=1
        )


def check_unlike_models_are_refused_on_all_ranks() -> None:
    model = torch.nn.Linear(2, 3 if hvd.rank() == 0 else 4)
    wrapped = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), gradient_as_bucket_view=True
    )
    with pytest.raises(ValueError, match=r"rank 0: 2 parameters of 9 elements.*rank 1: .*12 elem"):
        wrapped.synchronize()


def check_buckets_are_not_made_after_a_rank_has_joined() -> None:
    if hvd.rank() != 0:
        wrapped = hvd.DistributedOptimizer(
            torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1),
            gradient_as_bucket_view=True,
        )
        with pytest.raises(HorovodInternalError, match=r"a step on all ranks before any of them"):
            wrapped.synchronize()
    hvd.join()


def check_layouts() -> None:
    sizes = (3, 100, 50, 1)
    parameters = [torch.empty(size) for size in sizes]
    (layout,) = lay_out(parameters, bucket_bytes=600)
    assert list(layout.offsets.values()) == [0, 16, 128, 192]
    assert layout.ends == [128, 208]
    (alone,) = lay_out(parameters, bucket_bytes=0)
    assert alone.ends == [16, 128, 192, 208]
    (empty,) = lay_out([torch.empty(0), torch.empty(1), torch.empty(2, 0)], bucket_bytes=0)
    assert list(empty.offsets.values()) == [0, 16, 32]
    assert empty.ends == [16, 32, 48]
    for environment in ({}, {"HOROVOD_FUSION_THRESHOLD": " "}):
        assert bucket_bytes(None, environment) == 25 * 2**20
    assert bucket_bytes(None, {"HOROVOD_FUSION_THRESHOLD": "4096"}) == 4096
    assert bucket_bytes(1.5, {"HOROVOD_FUSION_THRESHOLD": "4096"}) == 3 * 2**19
