"""Optimizers on a GPU: steps on another stream than the backward pass, scaled losses, graphs."""

import gc
import itertools
from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.compared_results import total
from collective.ranks.gpu_of_rank import has_gpus, place
from collective.ranks.gpu_streams import filled, hold, many, on, settle, stream_after_this


class Halving:
    """A compressor of the user's, of which the core knows nothing."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor.to(torch.float16), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx)


class Scaling:
    """Another one, which keeps a tensor of its own for what comes back."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        scale = torch.full_like(tensor, 4.0)
        return (tensor / scale).to(torch.float16), {"scale": (scale,)}

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        scale: torch.Tensor = ctx["scale"][0]
        return tensor.to(scale.dtype) * scale


def check_what_a_compressor_has_made_is_not_overwritten_before_it_is_read() -> None:
    """The step's stream is another than that of the backward pass, and late."""
    count = many(1 << 20)
    wrong = []
    for compression, groups in itertools.product((Halving, Scaling), (None, 1)):
        weights = [torch.nn.Parameter(torch.zeros(count, device=place())) for _ in range(2)]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(weights, lr=1.0),
            [(str(number), weight) for number, weight in enumerate(weights)],
            compression=compression,  # type: ignore[arg-type]
            op=hvd.Sum,
            groups=groups,
        )
        for turn in range(2):
            torch.cat([weight * (hvd.rank() + 1.0) for weight in weights]).sum().backward()  # type: ignore[no-untyped-call]
            with on(stream_after_this()):
                hold(0.3)
                optimizer.step()
            garbage = filled(8, count, dtype=torch.float16) + filled(4, count)
            settle()
            del garbage
            wrong += [
                (compression.__name__, groups, turn, weight[:3].tolist())
                for weight in weights
                if not weight.eq(-total() * (turn + 1)).all()
            ]
            optimizer.zero_grad()
    assert not wrong, wrong


def check_the_rows_of_a_sparse_gradient_are_not_overwritten_before_they_are_read() -> None:
    rows, columns = 500, 1024 if has_gpus() else 8
    table = torch.nn.Embedding(rows, columns, sparse=True).to(place())
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), op=hvd.Average
    )
    (table(torch.arange(rows, device=place())) * (hvd.rank() + 1.0)).sum().backward()
    with on(stream_after_this()):
        hold(0.3)
        optimizer.synchronize()
    garbage = filled(6, hvd.size() * rows, columns)
    settle()
    del garbage
    gradient = table.weight.grad
    assert gradient is not None
    assert torch.allclose(
        gradient.to_dense(), torch.full((rows, columns), total() / hvd.size(), device=place())
    )


def check_steps_on_a_stream_of_the_scripts_own() -> None:
    """The optimizer is made on the default stream; nothing else happens there."""
    torch.backends.cudnn.allow_tf32 = False
    wrong = []
    for options in ({}, {"groups": 1}, {"compression": hvd.Compression.bf16}, {"groups": 2}):
        torch.manual_seed(5)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 6 * 6, 4),
        )
        model.to(place())
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        start = [each.detach().clone() for each in model.parameters()]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters(), **options
        )
        side = stream_after_this()
        generator = torch.Generator().manual_seed(11)
        batches = torch.randint(0, 2, (3, hvd.size() * 2, 3, 8, 8), generator=generator).float()
        with on(side):
            for batch in batches:
                own = batch[2 * hvd.rank() : 2 * hvd.rank() + 2].to(place(), non_blocking=True)
                hold(0.005)
                optimizer.zero_grad()
                model(own).square().mean().backward()
                optimizer.step()
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)
        together = [each.detach().clone() for each in model.parameters()]
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), start, strict=True):
                parameter.copy_(value)
        plain = torch.optim.SGD(model.parameters(), lr=0.5)
        del optimizer
        gc.collect()
        for batch in batches:
            plain.zero_grad()
            model(batch.to(place())).square().mean().backward()
            plain.step()
        for found, wanted in zip(together, model.parameters(), strict=True):
            near = 3e-2 if "compression" in options else 1e-3
            if not torch.allclose(found, wanted, rtol=near, atol=near):
                wrong.append((options, (found - wanted).abs().max().item()))
    assert not wrong, wrong


def check_a_group_of_parameters_on_two_devices() -> None:
    places = [torch.device("cpu"), place()] * 2
    weights = [torch.nn.Parameter(torch.zeros(5, device=each)) for each in places]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(weights, lr=1.0),
        [(str(number), weight) for number, weight in enumerate(weights)],
        op=hvd.Sum,
        groups=1,
    )
    for _ in range(3):
        optimizer.zero_grad()
        torch.cat([(weight * (hvd.rank() + 1.0)).cpu() for weight in weights]).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert all(weight.eq(-3 * total()).all() for weight in weights), weights


def check_scaled_losses() -> None:
    """Mixed precision as PyTorch's and Horovod's documentation have it; a step that overflows."""
    for fused in (False, True):
        weight = torch.nn.Parameter(torch.zeros(10, device=place()))
        inner = torch.optim.SGD([weight], lr=1.0, fused=fused)
        optimizer = hvd.DistributedOptimizer(inner, [("weight", weight)], op=hvd.Sum)
        scaler = torch.amp.GradScaler(place().type, init_scale=8.0)
        for turn, worst in enumerate((1.0, float("inf"), 1.0)):
            factor = hvd.rank() + 1.0 if hvd.rank() else worst
            scaler.scale((weight * factor).sum()).backward()  # type: ignore[no-untyped-call]
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            steps = (1, 1, 2)[turn]  # the second one overflows, on all ranks
            assert weight.eq(-float(total() * steps)).all(), (fused, turn, weight)
        assert scaler.get_scale() == 4.0


def check_a_captured_model_is_trained_by_an_optimizer_of_all_ranks() -> None:
    model = torch.nn.Linear(16, 4).to(place())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    inputs = torch.full((8, 16), hvd.rank() + 1.0, device=place())
    called: Any = model
    if has_gpus():
        called = torch.cuda.make_graphed_callables(model, (inputs.clone(),))
        for parameter in model.parameters():
            parameter.grad = None
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1 / 64), model.named_parameters(), op=hvd.Sum
    )
    for turn in range(3):
        optimizer.zero_grad()
        called(inputs).sum().backward()
        optimizer.step()
        assert model.weight.eq(0.5 - 8 * total() / 64 * (turn + 1)).all(), turn
        assert model.bias.eq(0.5 - 8 * hvd.size() / 64 * (turn + 1)).all(), turn
