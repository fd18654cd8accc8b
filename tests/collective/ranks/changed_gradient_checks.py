"""Gradients that a script changes in place while they are on their way."""

import contextlib
import itertools
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward

CHANGED = (
    "its gradient was changed while it was on its way: call optimizer.synchronize() before clipping"
    " or unscaling, and make the step within optimizer.skip_synchronize()"
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"compression": hvd.Compression.fp16},
    {"groups": 1},
    {"backward_passes_per_step": 2},
    {"gradient_as_bucket_view": True},
)


def made(**options: Any) -> tuple[torch.nn.Sequential, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    named = model.named_parameters()
    return model, hvd.DistributedOptimizer(sgd, named_parameters=named, **options)


def pass_backward(
    model: torch.nn.Module, optimizer: Any, scaled: Callable[[Any], Any] = lambda loss: loss
) -> None:
    for turn in range(optimizer.backward_passes_per_step):
        loss = model(torch.full((2, 2), hvd.rank() + turn + 1.0)).square().sum()
        run_backward(scaled(loss))


def warned(work: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [each for each in found if re.search("on (its|their) way", str(each.message))]


def check_a_gradient_that_is_clipped_on_its_way_is_named_once() -> None:
    for options in OPTIONS:
        model, optimizer = made(**options)

        def step(change: Callable[[Any], Any]) -> None:
            optimizer.zero_grad()  # noqa: B023 - called within the loop
            pass_backward(model, optimizer)  # noqa: B023 - as above
            change(model)  # noqa: B023 - as above
            optimizer.step()  # noqa: B023 - as above

        def clip(model: Any) -> None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)

        def double_one(model: Any) -> None:
            model[1].bias.grad.mul_(2.0)

        if "gradient_as_bucket_view" in options:  # the first step makes the buckets, and sends
            assert not warned(lambda: step(clip))
        (warning,) = warned(lambda: step(double_one))
        assert f"Parameter '1.bias': {CHANGED}" in str(warning.message), options
        assert warning.filename == __file__
        assert not warned(lambda: step(clip)), options
        model, optimizer = made(**options)
        if "gradient_as_bucket_view" in options:
            step(lambda _: None)
        assert len(warned(lambda: step(clip))) == 1, options


def check_nothing_is_said_of_what_the_library_writes() -> None:
    """Copies of gradients that are not contiguous, sparse ones, accumulation, closures, loads."""
    for options in (*OPTIONS, {"sparse_as_dense": True}, {"op": hvd.Sum, "groups": 2}):
        model, optimizer = made(**options)
        table = torch.nn.Embedding(4, 2, sparse=options.get("sparse_as_dense", False))
        transposed = torch.nn.Parameter(torch.ones(3, 2).t())
        unused = torch.nn.Parameter(torch.ones(2))
        strange = {"params": [transposed, unused, *table.parameters()]}
        optimizer.add_param_group(strange)

        def loss(model: Any = model, table: Any = table, transposed: Any = transposed) -> Any:
            return model(table(torch.tensor([hvd.rank()]))).sum() + (transposed * 2.0).sum()

        def train(optimizer: Any = optimizer, loss: Any = loss) -> None:
            def closure() -> Any:
                optimizer.zero_grad()
                for _ in range(optimizer.backward_passes_per_step):
                    run_backward(loss())
                return loss()

            for turn in range(3):
                closure()
                optimizer.step()
                optimizer.step(closure)
                closure()
                optimizer.synchronize()
                for group in optimizer.param_groups:
                    dense = [each for each in group["params"] if not each.grad.is_sparse]
                    torch.nn.utils.clip_grad_norm_(dense, 1.0)
                with optimizer.skip_synchronize():
                    optimizer.step()
                closure()
                if turn == 1:  # memory that takes the place of a gradient's is no change
                    for group in optimizer.param_groups:
                        for parameter in group["params"]:
                            if parameter.grad is not None and not parameter.grad.is_sparse:
                                parameter.grad.data = parameter.grad.data.clone()
                optimizer.step()
                optimizer.load_state_dict(optimizer.state_dict())

        assert not warned(train), options


def check_nothing_is_said_of_compiled_backward_passes() -> None:
    config: Any = getattr(torch, "_dynamo", None) and torch._dynamo.config
    if not hasattr(config, "compiled_autograd"):
        return
    for options in OPTIONS:
        model, optimizer = made(**options)

        def step(model: Any = model, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            pass_backward(model, optimizer)
            optimizer.step()

        compiled: Callable[[], object] = torch.compile(step, backend="eager")
        with config.patch({"compiled_autograd": True}):
            assert not warned(lambda: [compiled() for _ in range(3)]), options  # noqa: B023 - called at once


def check_a_skipped_step_says_what_to_call_first() -> None:
    model, optimizer = made()
    pass_backward(model, optimizer)
    with pytest.raises(AssertionError, match=r"GradScaler has skipped .* before scaler\.step\(\)"):
        optimizer.zero_grad()
    optimizer.step()


def documented() -> str:
    """The code of the page's section."""
    page = Path(__file__).parents[3] / "docs" / "from-horovod.md"
    section = page.read_text(encoding="utf-8").partition("\n## Clipping, and GradScaler\n")[2]
    found = re.search(
        r"^```python\n(.*?)^```$", section.partition("\n## ")[0], re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def check_the_page_clips_what_is_scaled() -> None:
    if not hasattr(torch.amp, "GradScaler"):  # PyTorch before 2.3 has one for GPUs alone
        return
    model, optimizer = made()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    infinite = [1.0, 1.0, float("inf"), 1.0]

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(batch).square().mean()
        return loss * infinite.pop(0) if hvd.rank() == hvd.size() - 1 else loss

    batches = [torch.full((2, 2), hvd.rank() + turn + 1.0) for turn in range(len(infinite))]
    names = {**locals(), "torch": torch}
    before = model.get_parameter("0.weight").detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(documented(), names)  # noqa: S102 - the project's own
    weights = hvd.allgather(model.get_parameter("0.weight").detach().unsqueeze(0))
    assert torch.equal(weights, weights[:1].expand_as(weights))
    assert not torch.equal(weights[0], before)
    assert scaler.get_scale() == 512.0  # one step was left out, by all ranks


def check_a_scaler_that_does_not_wait_for_gradients_is_warned_of() -> None:
    """PyTorch's unscaling does not count as a change of what it writes to."""
    if not hasattr(torch.amp, "GradScaler"):
        return  # older ones have it for GPUs alone
    for options, unscales in itertools.product(OPTIONS, (False, True)):
        model, optimizer = made(**options)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)

        def step(*, waits: bool) -> None:
            optimizer.zero_grad()  # noqa: B023 - called within the loop
            pass_backward(model, optimizer, scaler.scale)  # noqa: B023 - as above
            if waits:
                optimizer.synchronize()  # noqa: B023 - as above
            if unscales:  # noqa: B023 - as above
                scaler.unscale_(optimizer)  # noqa: B023 - as above
            with optimizer.skip_synchronize() if waits else contextlib.nullcontext():  # noqa: B023 - as above
                scaler.step(optimizer)  # noqa: B023 - as above
            scaler.update()  # noqa: B023 - as above

        assert not warned(lambda: step(waits=True))
        found = warned(lambda: step(waits=False))
        assert "GradScaler unscales gradients" in str(found[0].message), options
        assert Path(found[0].filename) == Path(__file__)
        assert not warned(lambda: step(waits=True))


def check_an_optimizer_that_scales_says_so_when_wrapped() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    for fused in (False, True):
        plain: Any = torch.optim.SGD([weight], lr=0.1)
        if fused:  # which PyTorch before 2.4 does not know of this one
            plain._step_supports_amp_scaling = True
        wrapped: Any = hvd.DistributedOptimizer(plain)
        assert wrapped._step_supports_amp_scaling == fused
        wrapped._step_supports_amp_scaling = not fused
        assert wrapped._step_supports_amp_scaling != fused
