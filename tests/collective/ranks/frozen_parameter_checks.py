"""Parameters that are frozen in mid-training stay where they are, though they go on taking part."""

from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"groups": 1},
    {"compression": hvd.Compression.fp16},
    {"op": hvd.Sum},
)


def check_a_frozen_parameter_is_not_moved_by_weight_decay_or_momentum() -> None:
    for options in OPTIONS:
        table, head = torch.nn.Embedding(3, 2, sparse=True), torch.nn.Linear(2, 1)
        hvd.broadcast_parameters({**table.state_dict(), **head.state_dict()}, 0)
        dense = torch.nn.Linear(2, 2)
        hvd.broadcast_parameters(dense.state_dict(), 0)
        frozen = [*dense.parameters(), table.weight]
        groups: list[dict[str, Any]] = [
            {"params": [*dense.parameters(), *head.parameters()], "weight_decay": 0.1},
            {"params": [table.weight]},  # whose gradients are sparse
        ]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(groups, lr=0.1, momentum=0.9), **options
        )

        def step(table: Any = table, dense: Any = dense, head: Any = head) -> None:
            optimizer.zero_grad()  # noqa: B023 - called within the loop
            run_backward(head(dense(table(torch.tensor([hvd.rank() % 3])))).sum())
            optimizer.step()  # noqa: B023 - as above

        step()
        for parameter in frozen:
            parameter.requires_grad = False
        before = [each.detach().clone() for each in (*frozen, head.bias)]
        for _ in range(2):
            step()
            assert all(each.grad is None for each in frozen), options
        assert all(map(torch.equal, frozen, before)), options
        assert not torch.equal(head.bias, before[-1])
        for parameter in frozen:
            parameter.requires_grad = True
        step()
        assert not any(map(torch.equal, frozen, before)), options
        assert frozen[0].grad is not None


def check_a_gradient_that_another_rank_has_for_a_parameter_frozen_here_stays() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Sum)
    if hvd.rank() == 0:
        weight.requires_grad = False
    else:
        run_backward(weight.sum())
    optimizer.step()
    assert weight.grad is not None
    assert weight.tolist() == [2.0 - hvd.size()] * 2


def check_a_group_is_sent_of_which_a_parameter_has_left_the_optimizer() -> None:
    def pop(optimizer: Any, _: Any) -> None:
        optimizer.param_groups.pop(0)

    def freeze(optimizer: Any, head: Any) -> None:
        optimizer.param_groups.pop(0)
        head.requires_grad_(requires_grad=False)

    def replace(optimizer: Any, head: Any) -> None:
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
        optimizer.param_groups[0]["params"] = list(head.parameters())

    def use_on_one_rank_alone(optimizer: Any, head: Any) -> None:
        optimizer.param_groups.pop(0)
        head.requires_grad_(requires_grad=hvd.rank() == 0)

    for leave in (pop, freeze, replace, use_on_one_rank_alone):
        for groups in (1, 2) if leave is not use_on_one_rank_alone else (1,):
            layers = [torch.nn.Linear(2, 2) for _ in range(2)]
            for layer in layers:
                hvd.broadcast_parameters(layer.state_dict(), 0)
            parts = [list(layer.parameters()) for layer in layers]
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD([{"params": part} for part in parts], lr=0.1),
                groups=groups,
            )
            head, body = layers
            for step in range(3):
                if step == 1:
                    leave(optimizer, head)
                optimizer.zero_grad()
                run_backward(body(head(torch.ones(1, 2) * (hvd.rank() + 1))).pow(2).sum())
                optimizer.step()
                for parameter in body.parameters():
                    assert parameter.grad is not None
                    theirs = hvd.allgather(parameter.grad[None])
                    assert all(torch.equal(each, parameter.grad) for each in theirs), leave
