"""What a wrapped optimizer is, has and takes."""

import copy
import io
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import horovod.torch as hvd


def check_the_wrapped_optimizer_is_still_itself() -> None:
    model = torch.nn.Linear(2, 1)
    inner = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.ones(1, 2)).sum().backward()
    inner.step()  # state exists before it is wrapped
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.1)
    optimizer = hvd.DistributedOptimizer(inner)
    assert isinstance(optimizer, torch.optim.Adam)
    assert type(optimizer).__name__ == "Adam"
    assert optimizer.state_dict()["state"][0]["step"] == 1
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the scheduler has seen the wrapper's step
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    after = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    after.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.005)


def check_a_step_of_the_users_class_alone() -> None:
    """As Horovod's own broadcast_optimizer_state makes it, of which scripts hold copies."""
    for op in (hvd.Average, hvd.Adasum):
        if op == hvd.Adasum and hvd.size().bit_count() != 1:
            continue
        layer = torch.nn.Linear(2, 1)
        sgd = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.5)
        optimizer = hvd.DistributedOptimizer(sgd, op=op)
        assert type(optimizer).__bases__ == (torch.optim.SGD,)
        if hvd.rank() == 0:  # nobody is waited for
            for parameter in layer.parameters():
                parameter.grad = torch.ones_like(parameter)
            before = layer.bias.detach().clone()
            super(type(optimizer), optimizer).step()
            torch.testing.assert_close(layer.bias.detach(), before - 0.5)
            assert len(optimizer.state) == 2
        with pytest.raises(ValueError, match="wrapped by DistributedOptimizer already"):
            hvd.DistributedOptimizer(optimizer)


def check_attributes_of_a_wrapped_optimizer_are_horovods() -> None:
    layer = torch.nn.Linear(2, 1)
    names = {parameter: name for name, parameter in layer.named_parameters()}
    for options in (
        {},
        {"op": hvd.Sum, "sparse_as_dense": True, "backward_passes_per_step": 2},
        {"gradient_predivide_factor": 2.0, "gradient_as_bucket_view": True},
        {"op": hvd.Adasum, "backward_passes_per_step": 3},
    ):
        op = options.get("op", hvd.Average)
        if op == hvd.Adasum and hvd.size() & (hvd.size() - 1):
            continue
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(layer.parameters(), lr=0.1),
            named_parameters=layer.named_parameters(),
            **options,
        )
        assert type(optimizer).__module__ == hvd.DistributedOptimizer.__module__
        assert optimizer.__module__ == hvd.DistributedOptimizer.__module__
        assert optimizer._parameter_names == names
        assert optimizer.op == op
        assert optimizer.process_set is hvd.global_process_set
        assert optimizer.sparse_as_dense == options.get("sparse_as_dense", False)
        factor = options.get("gradient_predivide_factor", 1.0)
        assert optimizer.gradient_predivide_factor == factor
        passes = options.get("backward_passes_per_step", 1)
        assert optimizer.backward_passes_per_step == passes
        optimizer.set_backward_passes_per_step(passes + 1)
        assert optimizer.backward_passes_per_step == passes + 1
        optimizer.backward_passes_per_step = passes
        assert optimizer.backward_passes_per_step == passes
        with pytest.raises(ValueError, match="must be > 0"):
            optimizer.backward_passes_per_step = 0


def check_arguments_of_the_optimizer() -> None:
    model = torch.nn.Linear(2, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    weight, bias = model.parameters()
    for options, error, text in (
        ({"named_parameters": [weight]}, ValueError, "should be a sequence of tuples"),
        ({"named_parameters": [("a", weight), ("a", bias)]}, ValueError, "duplicates: a"),
        ({"named_parameters": [("a", weight)]}, ValueError, "were not named"),
        ({"backward_passes_per_step": 0}, ValueError, "must be > 0"),
        ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, ValueError, "op != Average"),
        ({"gradient_predivide_factor": 0}, ValueError, "factor must be .* got 0"),
        ({"gradient_predivide_factor": math.inf}, ValueError, "must be .* got inf"),
        ({"op": 17}, ValueError, "op=17 is not a reduction"),
        ({"op": 1.0}, ValueError, r"op=1\.0 is not a reduction"),
        ({"op": 2.0}, ValueError, r"op=2\.0 is not a reduction"),
        ({"op": 17, "gradient_as_bucket_view": True}, ValueError, "op=17 is not a reduction"),
    ):
        with pytest.raises(error, match=text):
            hvd.DistributedOptimizer(sgd, **options)
    with pytest.raises(ValueError, match="wrapped by DistributedOptimizer already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd))
    no_sets: list[Any] = [None, [0, 1], "a"]
    for no_set in no_sets:
        for op in (hvd.Average, hvd.Adasum):
            with pytest.raises(
                TypeError, match=r"process_set must be a ProcessSet, not (None|l|s)"
            ):
                hvd.DistributedOptimizer(sgd, op=op, process_set=no_set)


def check_copies_of_a_wrapped_optimizer_tell_their_state_and_say_that_they_are_not_wrapped() -> (
    None
):
    for op in (hvd.Average, hvd.Adasum):
        if op == hvd.Adasum and hvd.size().bit_count() != 1:
            continue
        layer = torch.nn.Linear(2, 1)
        sgd = torch.optim.SGD(layer.parameters(), lr=0.5)
        optimizer = hvd.DistributedOptimizer(sgd, op=op)
        assert not hasattr(type(optimizer), "_passed")
        saves: list[Callable[[], Any]] = [
            lambda: torch.save(optimizer, io.BytesIO()),  # noqa: B023 - called within the loop
            *(
                lambda of=of, protocol=protocol: of([optimizer], protocol)  # noqa: B023 - as above
                for of in (pickle.dumps, pickle._dumps)  # type: ignore[attr-defined]
                for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
            ),
        ]
        for save in saves:
            with pytest.raises(TypeError, match=r"save optimizer\.state_dict\(\), and wrap anew"):
                save()
        sent = hvd.broadcast_object(optimizer) if op == hvd.Average else optimizer
        for made in (copy.deepcopy(optimizer), copy.copy(optimizer), sent):
            assert repr(made.state_dict()) == repr(optimizer.state_dict())
            for use in (made.step, made.zero_grad, made.synchronize):
                if made is optimizer or (op == hvd.Adasum and use == made.synchronize):
                    continue
                with pytest.raises(TypeError, match=r"copy or save optimizer\.state_dict\(\)"):
                    use()
        ours, theirs = optimizer.param_groups, copy.deepcopy((optimizer, layer))
        assert theirs[0].param_groups[0]["params"][0] is theirs[1].weight
        assert copy.copy(optimizer).param_groups is ours
        optimizer.zero_grad()
        optimizer.step()


def check_gradients_that_are_named_alike_say_what_to_do() -> None:
    every: list[dict[str, Any]] = [{}, {"groups": 1}]
    for options in every:
        layers = [torch.nn.Linear(2, 1, bias=False) for _ in range(2)]
        optimizers = [
            hvd.DistributedOptimizer(
                torch.optim.SGD(layer.parameters(), lr=0.5), layer.named_parameters(), **options
            )
            for layer in layers
        ]
        losses = [layer(torch.ones(1, 2)).sum() for layer in layers]
        if hvd.rank() == 0:  # of which the others have sent nothing yet
            losses[0].backward()
            with pytest.raises(
                ValueError, match=r"same name.*\('encoder\.' \+ n, p\) for n, p in "
            ):
                losses[1].backward()
        hvd.barrier()
        for loss, optimizer in zip(losses, optimizers, strict=True):
            if hvd.rank() != 0:
                loss.backward()
            optimizer.step()
