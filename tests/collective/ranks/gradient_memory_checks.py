"""Gradients that are sent while others still read, or have, the same memory."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from collective.ranks.changed_gradient_checks import warned
from horovod.torch.gradient_memory import Memory, memory_of

WIDTH = 64
SECONDS = 20.0
CAN_COUNT = hasattr(torch._C, "_storage_Use_Count")  # PyTorch 2.0 does not tell who has memory
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"compression": hvd.Compression.fp16},
    {"gradient_predivide_factor": 2.0},
    {"groups": "each"},
    {"backward_passes_per_step": 2},
    {"gradient_as_bucket_view": True},
)


def wrapped(parameters: Sequence[torch.Tensor], **options: Any) -> Any:
    if options.get("groups") == "each":
        options["groups"] = [[parameter] for parameter in parameters]
    return hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0), **options)


class Until(torch.autograd.Function):
    """Holds the backward pass up until something is true."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, ready: Callable[[], bool]) -> torch.Tensor:
        context.ready = ready
        return tensor.clone()

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        end = time.monotonic() + SECONDS
        while not context.ready():
            assert time.monotonic() < end, "a gradient is not sent while the pass goes on"
            time.sleep(0)
        return gradients[0], None


def check_a_gradient_that_is_read_further_below_is_not_written_to_meanwhile() -> None:
    """Of a sum's parts one is a parameter, seen through a view: all get the sum's gradient."""
    for options in OPTIONS:
        below, added = (torch.nn.Parameter(torch.full((2, WIDTH), 2.0)) for _ in range(2))
        # A bucket is sent once all of its gradients are there.
        apart = {"bucket_cap_mb": 0} if "gradient_as_bucket_view" in options else {}
        optimizer = wrapped([below, added], **options, **apart)

        def is_reduced() -> bool:
            handle, _ = optimizer._handles.get(added, (None, None))  # noqa: B023 - called within the loop
            return hvd.poll(handle) if isinstance(handle, int) else handle is not None

        def loss(ready: Callable[[], bool], below: Any = below, added: Any = added) -> Any:
            hidden = (below * (hvd.rank() + 1.0)).unsqueeze(0)
            apply: Any = Until.apply
            total = hidden + apply(hidden * 2.0, ready) + added.unsqueeze(0)
            return (total * (hvd.rank() + 1.0)).sum()

        ranks = range(1, hvd.size() + 1)
        mean, squares = (sum(each**power for each in ranks) / hvd.size() for power in (1, 2))
        for step in range(2):
            optimizer.zero_grad()
            passes = optimizer.backward_passes_per_step
            for number in range(passes):
                early = number < passes - 1 or (step == 0 and "gradient_as_bucket_view" in options)
                run_backward(loss((lambda: True) if early else is_reduced))
            optimizer.step()
            assert added.grad is not None
            assert below.grad is not None
            assert added.grad.tolist() == [[mean * passes] * WIDTH] * 2, options
            expected = torch.full((2, WIDTH), 3.0 * squares * passes)
            assert torch.allclose(below.grad, expected), options


def check_gradients_that_are_one_memory_are_each_reduced_once() -> None:
    for options in OPTIONS:
        twins = [torch.nn.Parameter(torch.ones(2, WIDTH)) for _ in range(2)]
        optimizer = wrapped(twins, op=hvd.Average, **options)
        for _ in range(10):
            optimizer.zero_grad()
            # Once: of a second pass PyTorch itself adds both gradients to the one memory.
            run_backward(((twins[0][None] + twins[1][None]) * (hvd.rank() + 1.0)).sum())
            optimizer.step()
            expected = [[(hvd.size() + 1) / 2] * WIDTH] * 2
            assert [each.grad.tolist() for each in twins if each.grad is not None] == [expected] * 2


def check_gradients_that_are_one_memory_have_results_of_their_own() -> None:
    """One of them is not used on rank 0, so that averages differ; or no optimizer reduces it."""
    mean, others = (hvd.size() + 1) / 2, (hvd.size() + 1) / 2 - 1 / hvd.size()
    for options in OPTIONS:
        for alone in (False, True):
            shared, other = (torch.nn.Parameter(torch.ones(2, WIDTH)) for _ in range(2))
            optimizer = wrapped([shared] if alone else [shared, other], **options)
            total = shared[None]
            if alone or hvd.rank() != 0:
                total = total + other[None]
            loss: Any = (total * (hvd.rank() + 1.0)).sum()
            for _ in range(optimizer.backward_passes_per_step):
                shared.grad = other.grad = None  # PyTorch would add both to the one memory
                loss.backward(retain_graph=True)
            optimizer.step()
            expected = hvd.rank() + 1.0 if alone else others
            assert shared.grad is not None
            assert other.grad is not None
            assert shared.grad.tolist() == [[mean] * WIDTH] * 2, (options, alone)
            wanted = torch.full((2, WIDTH), expected)
            assert torch.allclose(other.grad, wanted, rtol=1e-3), (options, alone)


def check_a_sparse_gradient_on_its_way_is_not_written_to() -> None:
    """Of embeddings of one sample, that of the places is a view of the words' values."""
    words = torch.nn.Embedding(3, WIDTH, sparse=True)
    places = torch.nn.Parameter(torch.zeros(WIDTH, WIDTH))
    optimizer = wrapped([words.weight, places])
    given = torch.arange(WIDTH)[None] % 3
    for _ in range(2):
        optimizer.zero_grad()
        run_backward(((words(given) + places[None]) * (hvd.rank() + 1.0)).sum())
        on_its_way: Any = words.weight.grad
        optimizer.step()
        assert (on_its_way._values() == hvd.rank() + 1.0).all()
        assert places.grad is not None
        assert (places.grad == (hvd.size() + 1) / 2).all()


def check_parts_of_one_memory_are_not_taken_for_changed() -> None:
    """Autograd counts changes of views together."""
    if not CAN_COUNT:
        return
    for passes in (1, 2):
        pair = [torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2)]
        optimizer = wrapped(pair, backward_passes_per_step=passes)

        def train(pair: Any = pair, optimizer: Any = optimizer, passes: int = passes) -> None:
            for _ in range(3):
                for _ in range(passes):
                    run_backward((torch.cat(pair) * (hvd.rank() + 1.0)).sum())
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)

        assert not warned(train), passes


def check_gradients_of_a_script_s_own_memory_stay_there() -> None:
    pair = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    flat = torch.zeros(6)
    optimizer = wrapped(pair)

    def train() -> None:
        for _ in range(3):
            for parameter, part in zip(pair, (flat[:3], flat[3:]), strict=True):
                parameter.grad = part
            optimizer.zero_grad(set_to_none=False)
            run_backward((pair[0] + 2.0 * pair[1]).sum() * (hvd.rank() + 1.0))
            optimizer.step()
            mean = (hvd.size() + 1) / 2
            assert flat.tolist() == [mean] * 3 + [2.0 * mean] * 3

    assert not warned(train)


def check_gradients_in_a_script_s_buffer_stay_there_whatever_made_them() -> None:
    """No hook has seen those that the script computes, that no pass makes, or that come early."""
    mean = (hvd.size() + 1) / 2
    for options in OPTIONS:
        if "gradient_as_bucket_view" in options:  # which moves them
            continue
        for how in ("computed", "unused", "early", "unfrozen"):
            parameters = [torch.nn.Parameter(torch.zeros(WIDTH)) for _ in range(2)]
            flat = torch.zeros(2 * WIDTH)
            for parameter, part in zip(parameters, (flat[:WIDTH], flat[WIDTH:]), strict=True):
                parameter.grad = part
            parameters[1].requires_grad = how != "unfrozen"
            optimizer = wrapped(parameters, **options)
            parameters[1].requires_grad = True
            for step in range(3):
                flat.zero_()
                used = parameters[:1] if how == "unused" and step == 0 else parameters
                passes = 1 if how in ("computed", "early") else optimizer.backward_passes_per_step
                for _ in range(passes):
                    loss: Any = sum(each.sum() for each in used) * (hvd.rank() + 1.0)
                    if how == "computed":
                        torch.cat(torch.autograd.grad(loss, used), out=flat)
                    else:
                        loss.backward()
                optimizer.step()
                wanted = [mean * passes] * WIDTH + [mean * passes * (len(used) - 1)] * WIDTH
                assert torch.allclose(flat, torch.tensor(wanted), rtol=1e-3), (options, how, step)


class Looking(torch.nn.Module):
    """Layers of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv1d(2, 4, 3)
        self.norm = torch.nn.LayerNorm(4)
        self.layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
        self.recurrent = torch.nn.LSTM(4, 4)
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.convolution(given).transpose(1, 2))
        found: torch.Tensor = self.linear(self.recurrent(self.layer(hidden))[0])
        return found


def check_gradients_of_layers_are_sent_without_a_copy() -> None:
    if not CAN_COUNT:
        return
    model = Looking()
    found: list[Memory] = []
    nodes: list[Any] = []
    for parameter in model.parameters():
        node: Any = parameter.view_as(parameter).grad_fn

        def look(_: Any, arrived: Any, parameter: torch.Tensor = parameter) -> None:
            assert parameter.grad is not None
            found.append(memory_of(parameter.grad, arrived[0]))

        node = node.next_functions[0][0]
        node.register_hook(look)
        nodes.append(node)
    run_backward(model(torch.ones(3, 2, 5)).sum())
    assert found == [Memory.OWN] * len(nodes)
