"""Parameters, optimizer states and objects from one rank to all."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from horovod import _objects
from horovod._given_numbers import checked_root
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id
from horovod.torch.handles import start_all, wait_for_all
from horovod.torch.missing_gradients import zeros_for
from horovod.torch.mpi_ops import broadcast_async_, rank
from horovod.torch.optimizer_state import load, pack, take, to_receive, unpack


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Overwrites parameters with the root's.

    Args:
        params: `model.state_dict()`, a list of `(name, tensor)` as of `named_parameters()`, or a
            list of tensors.
        root_rank: whose values they get.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(params, Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, list):
        pairs = [item if isinstance(item, tuple) else (None, item) for item in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")  # noqa: TRY004 - Horovod's error
    named = [(name, tensor) for name, tensor in pairs if tensor is not None]
    for name, tensor in named:
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(  # noqa: TRY004 - as above
                f"invalid params: {name!r} is of type {type(tensor)}, not a tensor; send it with"
                " hvd.broadcast_object"
            )
    _broadcast_all(named, root_rank)


def _broadcast_all(named: Iterable[tuple[str | None, torch.Tensor]], root_rank: int) -> None:
    """Broadcasts tensors in place; when it returns or raises, none is on its way any more."""
    starts = [
        functools.partial(broadcast_async_, tensor, root_rank, name) for name, tensor in named
    ]
    wait_for_all(start_all(starts))


def _zero_missing_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Gives parameters without a gradient one of zeros, which scripts then find as under Horovod.

    Horovod makes a step with them, which fills the state; under weight decay, it moves parameters.
    """
    sparse = isinstance(optimizer, torch.optim.SparseAdam)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                zeros = zeros_for(parameter)
                parameter.grad = zeros.to_sparse(1) if sparse else zeros


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,  # noqa: ARG001 - Horovod's signature; the state says it all
) -> None:
    """Overwrites an optimizer's state and options with the root's.

    Ranks whose optimizer has no state yet get the root's; where that has none, so have all. Types
    and values of the state are the root's. The groups stay the same objects, as do the tensors of
    the state where shape, type and device agree. Where the root has no state, parameters that have
    no gradient get zeros as one, on all ranks.

    Args:
        optimizer: of the same parameters on all ranks.
        root_rank: whose state it gets.
        model: not needed.

    Raises:
        ValueError: the optimizer is LBFGS, whose state cannot be sent.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")  # noqa: TRY004 - Horovod's error
    root_rank = checked_root(root_rank)
    entries = optimizer.state.values()
    fresh = not any(isinstance(entry, torch.Tensor) or entry for entry in entries)
    is_root = rank() == root_rank
    packed = None
    tensors: list[torch.Tensor] = []
    if is_root:
        packed, tensors = pack(optimizer, take(optimizer))
    else:
        optimizer.state_dict()  # an optimizer that has none raises on all ranks, nobody waits
    packed, fresh = _objects.broadcast_object((packed, fresh), root_rank, "optimizer_state")
    if fresh:  # as the root is: what is dense on one rank must not be sparse on another
        _zero_missing_gradients(optimizer)
    if not is_root:
        tensors = to_receive(packed)
    _broadcast_all(
        ((f"optimizer_state.{index}", tensor) for index, tensor in enumerate(tensors)), root_rank
    )
    if not is_root:
        load(optimizer, unpack(optimizer, packed, tensors))


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends the root's object to all ranks; the others' are not looked at.

    Args:
        obj: anything that cloudpickle can serialise.
        root_rank: whose object it is.
        name: of the operation, or None.
        process_set: whose ranks take part.
    """
    root = checked_root(root_rank)
    return _objects.broadcast_object(obj, root, name, registered_id(process_set))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Collects one object of every rank; returns them by rank."""
    return _objects.allgather_object(obj, name)
