"""Optimizers whose process set stands for other ranks than when they were wrapped."""

from typing import Any

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"groups": 1},
    {"backward_passes_per_step": 2},
    {"compression": hvd.Compression.fp16},
    {"gradient_as_bucket_view": True},
    {"op": hvd.Adasum},
)


class Training:
    """A parameter on each rank, which an optimizer moves by the mean of its members' gradients."""

    def __init__(self, members: hvd.ProcessSet, options: dict[str, Any]) -> None:
        self.members = members
        self.passes = options.get("backward_passes_per_step", 1)
        self.parameter = torch.nn.Parameter(torch.zeros(8))
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([self.parameter], lr=1.0), process_set=members, **options
        )

    def step(self) -> None:
        before = self.parameter.detach().clone()
        self.optimizer.zero_grad()
        for _ in range(self.passes):
            run_backward((self.parameter * (hvd.rank() + 1.0)).sum())
        self.optimizer.step()
        ranks = self.members.ranks if self.members.included() else [hvd.rank()]
        # The adaptive sum of parallel vectors is their mean.
        expected = sum(rank + 1.0 for rank in ranks) / len(ranks) * self.passes
        assert torch.allclose(before - self.parameter.detach(), torch.full((8,), expected))


def pairs() -> tuple[list[int], list[int]]:
    """Two pairs of ranks, of which a rank may be in both."""
    return [0, 1], [hvd.size() - 2, hvd.size() - 1]


def check_a_set_is_added_again_with_other_ranks() -> None:
    for options in OPTIONS:
        first, second = pairs()
        members = hvd.add_process_set(first)
        training = Training(members, options)
        for ranks in (second, first, second):
            training.step()
            training.step()
            hvd.remove_process_set(members)
            members.ranks = ranks
            hvd.add_process_set(members)
        training.step()
        hvd.remove_process_set(members)


def check_only_members_train() -> None:
    for options in OPTIONS:
        members = hvd.add_process_set(pairs()[0])
        training = Training(members, options)
        for ranks in (pairs()[1], None):
            if members.included():
                training.step()
                training.step()
            hvd.remove_process_set(members)
            if ranks is not None:
                members.ranks = ranks
                hvd.add_process_set(members)


def check_a_job_after_the_first_has_other_members() -> None:
    for options in OPTIONS:
        first, second = pairs()
        members = hvd.add_process_set(first)
        training = Training(members, options)
        training.step()
        hvd.barrier()
        hvd.shutdown()
        members.ranks = second
        hvd.init(process_sets=[members])
        training.step()
        training.step()
        hvd.barrier()
        hvd.shutdown()
        hvd.init()


def check_an_optimizer_of_one_rank_is_refused_where_there_are_more() -> None:
    rank = hvd.rank()
    hvd.barrier()
    hvd.shutdown()
    hvd.init(comm=[rank])
    trainings = [Training(hvd.global_process_set, options) for options in OPTIONS]
    for training in trainings:
        training.step()
    hvd.shutdown()
    hvd.init()
    for training in trainings:
        training.optimizer.zero_grad()
        run_backward(training.parameter.sum())
        for step in (training.optimizer.step, training.optimizer.synchronize):
            with pytest.raises(RuntimeError, match=f"of one rank.* the job has {hvd.size()} ranks"):
                step()


def check_a_member_whose_set_is_gone_is_told_so() -> None:
    members = hvd.add_process_set(pairs()[0])
    training = Training(members, {})
    training.step()
    hvd.remove_process_set(members)
    try:
        training.step()
    except ValueError as error:
        assert "has not been registered" in str(error)  # noqa: PT017 - others have none
        assert members.included()
    else:
        assert not members.included()


def begin_anew_when_sent(optimizer: Any) -> None:
    for handle, _ in optimizer._handles.values():
        while handle is not None and not hvd.poll(handle):
            pass
    hvd.barrier()
    hvd.shutdown()
    hvd.init()


def check_a_new_job_between_backward_pass_and_step_sends_nothing_twice() -> None:
    for options in OPTIONS[0], OPTIONS[4]:
        parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
        plain = torch.optim.SGD(parameters, lr=0.0)
        optimizer = hvd.DistributedOptimizer(plain, op=hvd.Sum, **options)
        for step in range(3):
            optimizer.zero_grad()
            run_backward(sum(each.sum() * (i + 1) for i, each in enumerate(parameters)))
            if step == 1:
                begin_anew_when_sent(optimizer)
            optimizer.step()
            found = [each.grad.tolist() for each in parameters if each.grad is not None]
            assert found == [[1.0 * hvd.size()] * 3, [2.0 * hvd.size()] * 3], (options, step)


def check_buckets_of_which_a_part_was_sent_before_a_new_job_have_to_be_made_again() -> None:
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    plain = torch.optim.SGD(parameters, lr=0.0)
    optimizer = hvd.DistributedOptimizer(
        plain, op=hvd.Sum, gradient_as_bucket_view=True, bucket_cap_mb=0
    )
    for step in range(3):
        optimizer.zero_grad()
        run_backward(parameters[0].sum())
        if step == 1:
            begin_anew_when_sent(optimizer)
            with pytest.raises(hvd.HorovodInternalError, match="run the backward pass again"):
                optimizer.step()
            optimizer.zero_grad()
            run_backward(parameters[0].sum())
        optimizer.step()
        found = [each.grad.tolist() for each in parameters if each.grad is not None]
        assert found == [[1.0 * hvd.size()] * 3, [0.0] * 3], step
