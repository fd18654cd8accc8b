"""Attributes of Horovod's wrapped optimizer that scripts use, though they are not its interface."""

from typing import Any

import pytest
import torch

import horovod.torch as hvd


class Branches(torch.nn.Module):
    """Of three layers of weights, the second is used only now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (
            torch.nn.Parameter(torch.full((4,), float(value))) for value in (1, 2, 3)
        )

    def forward(self, *, all_of_it: bool) -> torch.Tensor:
        used = self.first * (hvd.rank() + 1.0) + self.third
        return (used + self.second if all_of_it else used).sum()


def wrapped(model: Branches, **options: Any) -> Any:
    return hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.1),
        named_parameters=model.named_parameters(),
        **options,
    )


def run_backward(model: Branches, *, all_of_it: bool) -> None:
    loss: Any = model(all_of_it=all_of_it)
    loss.backward()


def check_unused_parameters_may_be_kept_from_gradients_of_zeros() -> None:
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    for options in ({}, {"groups": 1}, {"groups": 2}, {"compression": hvd.Compression.fp16}):
        for how in ("default", "replaced", "emptied", "without it"):
            model = Branches()
            optimizer = wrapped(model, **options)
            if how == "replaced":
                optimizer._requires_update = set()
            elif how == "emptied":
                optimizer._requires_update.clear()
            elif how == "without it":
                optimizer._requires_update.discard(model.second)
            run_backward(model, all_of_it=False)
            optimizer.step()
            assert model.first.grad is not None
            assert model.third.grad is not None
            torch.testing.assert_close(model.first.grad, torch.full((4,), mean))
            torch.testing.assert_close(model.third.grad, torch.ones(4))
            if how == "default":
                assert model.second.grad is not None
                torch.testing.assert_close(model.second.detach(), torch.full((4,), 1.9))
            else:
                assert model.second.grad is None, (options, how)
                assert model.second.tolist() == [2.0] * 4
            optimizer.zero_grad()
            run_backward(model, all_of_it=True)
            optimizer.step()
            assert model.second.grad is not None
            assert model.second.grad.tolist() == [1.0] * 4


def check_parameters_added_later_follow_the_users_choice() -> None:
    for chosen in (False, True):
        model, later = Branches(), torch.nn.Parameter(torch.ones(2))
        optimizer = wrapped(model)
        assert optimizer._requires_update == set(model.parameters())
        if chosen:
            optimizer._requires_update = {model.first}
        optimizer.add_param_group({"params": [later]})
        assert (later in optimizer._requires_update) is not chosen


def check_gradients_of_parameters_unfrozen_later_are_reduced() -> None:
    """From the first backward pass on, whose end no hook has seen, and in a group as alone."""
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    for grouped in (False, True):
        for how in ("default", "replaced", "listed"):
            model = Branches()
            model.second.requires_grad = False
            groups = [[model.first, model.second], [model.third]] if grouped else None
            optimizer = wrapped(model, groups=groups)
            if how == "replaced":
                optimizer._requires_update = set()
            elif how == "listed":
                optimizer._requires_update = {model.second}
            model.second.requires_grad_()
            for _ in range(2):
                optimizer.zero_grad()
                torch.autograd.backward((model.second * (hvd.rank() + 1.0)).sum())
                torch.autograd.backward(model.first.sum())
                optimizer.step()
                assert model.second.grad is not None
                torch.testing.assert_close(model.second.grad, torch.full((4,), mean))
                assert (model.third.grad is None) is (how != "default"), (grouped, how)


def check_a_new_rank_sends_what_is_unfrozen_with_its_group_as_others_do() -> None:
    model = Branches()
    first, second, third = model.parameters()

    def wrap() -> Any:
        second.requires_grad = False
        return wrapped(model, groups=[[first, second], [third]])

    def step() -> None:
        second.requires_grad_()
        optimizer.zero_grad()
        torch.autograd.backward(((first + second + third) * (hvd.rank() + 1)).sum())
        optimizer.step()
        assert second.grad is not None
        assert second.grad.tolist() == [(hvd.size() + 1) / 2] * 4

    optimizer = wrap()
    step()
    if hvd.rank() != 0:  # as in an elastic job that has lost the others
        optimizer = wrap()
    step()


def check_a_parameter_unfrozen_later_may_lack_a_gradient_on_some_ranks() -> None:
    for how in ("default", "listed"):
        model = Branches()
        first, second, third = model.parameters()
        second.requires_grad = False
        optimizer = wrapped(model, groups=[[first, second, third]])
        if how == "listed":
            optimizer._requires_update = {first, second, third}
        second.requires_grad_()
        # Of the group in which they are, some ranks have sent what they followed, others have not.
        used = (first, second, third) if hvd.rank() == 0 else (first,)
        torch.autograd.backward(sum((each.sum() for each in used), torch.zeros(())))
        optimizer.step()
        for each, expected in ((first, 1.0), (second, 1 / hvd.size()), (third, 1 / hvd.size())):
            assert each.grad is not None
            torch.testing.assert_close(each.grad, torch.full((4,), expected))


def check_attributes_tell_how_far_gradients_are() -> None:
    model = Branches()
    first, second, third = model.parameters()
    groups = [[first, third]]
    optimizer = wrapped(
        model, backward_passes_per_step=2, groups=groups, compression=hvd.Compression.fp16
    )
    assert optimizer._compression is hvd.Compression.fp16
    assert optimizer._groups is groups
    together = (first, third)
    assert optimizer._p_to_group == {first: together, second: (second,), third: together}
    assert optimizer._allreduce_delay == dict.fromkeys(model.parameters(), 2)
    assert optimizer._handles == {}
    run_backward(model, all_of_it=False)
    assert optimizer._allreduce_delay == {first: 1, second: 2, third: 1}
    assert optimizer._handles == {first: (None, None), third: (None, None)}
    run_backward(model, all_of_it=False)
    assert optimizer._allreduce_delay == {first: 0, second: 2, third: 0}
    assert optimizer._handles.keys() == {first, third}
    assert None not in {handle for handle, _ in optimizer._handles.values()}
    optimizer.synchronize()
    assert optimizer._handles == {}
    assert optimizer._allreduce_delay == dict.fromkeys(model.parameters(), 2)
    for name in ("_compression", "_handles", "_groups", "_p_to_group", "_allreduce_delay"):
        with pytest.raises(AttributeError):
            setattr(optimizer, name, None)
    assert wrapped(Branches())._groups is None
    assert wrapped(Branches())._p_to_group == {}


def check_buckets_have_a_gradient_for_each_parameter() -> None:
    model = Branches()
    optimizer = wrapped(model, gradient_as_bucket_view=True, backward_passes_per_step=2)
    assert optimizer._requires_update == set(model.parameters())
    with pytest.raises(ValueError, match="reduces whole buckets, with a gradient of zeros"):
        optimizer._requires_update = set()
    run_backward(model, all_of_it=False)
    assert optimizer._handles == {model.first: (None, None), model.third: (None, None)}
    run_backward(model, all_of_it=True)
    assert optimizer._allreduce_delay == {model.first: 0, model.second: 1, model.third: 0}
    assert optimizer._handles.keys() == set(model.parameters())
    optimizer.step()
    assert optimizer._handles == {}


def check_a_gradient_may_be_reduced_by_itself() -> None:
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        model = Branches()
        optimizer = wrapped(model, backward_passes_per_step=2, compression=compression)
        run_backward(model, all_of_it=False)
        handle, context = optimizer._allreduce_grad_async(model.first)
        reduced = compression.decompress(hvd.synchronize(handle), context)
        torch.testing.assert_close(reduced, torch.full((4,), mean))
        handle, context = optimizer._allreduce_grad_async(model.second)
        assert compression.decompress(hvd.synchronize(handle), context).tolist() == [0.0] * 4
    embedding = torch.nn.Embedding(3, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(embedding.parameters(), lr=0.5), backward_passes_per_step=2
    )
    embedding(torch.tensor([hvd.rank() % 3])).sum().backward()
    finish, context = optimizer._allreduce_grad_async(embedding.weight)
    assert context is None
    assert finish().to_dense().sum() == 2


def check_adasums_optimizer_says_how_steps_travel() -> None:
    if hvd.size() & (hvd.size() - 1):
        return
    optimizer = wrapped(Branches(), op=hvd.Adasum, compression=hvd.Compression.fp16)
    assert optimizer._compression is hvd.Compression.fp16
