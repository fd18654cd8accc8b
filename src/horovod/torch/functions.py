"""Parameters, optimizer states and objects from one rank to all."""

from collections.abc import Mapping
from typing import Any

import torch

from horovod import _objects
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id
from horovod.torch.mpi_ops import broadcast_async_, rank, synchronize


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
    handles = []
    for name, tensor in pairs:
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(  # noqa: TRY004 - as above
                f"invalid params: {name!r} is of type {type(tensor)}, not a tensor; send it with"
                " hvd.broadcast_object"
            )
        handles.append(broadcast_async_(tensor, root_rank, name))
    for handle in handles:
        synchronize(handle)


class _TensorPlace:
    """Stands for a tensor in a state whose tensors travel on their own."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype

    def new_tensor(self) -> torch.Tensor:
        return torch.empty(self.shape, dtype=self.dtype)


def _take_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Copies a nested state with a place for each tensor, which goes into the list.

    There they are on the CPU, where those who do not know the root's devices receive them.
    """
    if isinstance(value, torch.Tensor):
        tensors.append(value.cpu())
        return _TensorPlace(value)
    if isinstance(value, dict):
        return {key: _take_tensors(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_take_tensors(item, tensors) for item in value)
    return value


def _put_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Undoes `_take_tensors` with new tensors, which go into the list."""
    if isinstance(value, _TensorPlace):
        tensors.append(value.new_tensor())
        return tensors[-1]
    if isinstance(value, dict):
        return {key: _put_tensors(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_put_tensors(item, tensors) for item in value)
    return value


def _take_over(old: dict[Any, Any], new: Mapping[Any, Any]) -> None:
    """Puts values into a dict, and tensors into those that it has where they fit."""
    for key, value in new.items():
        present = old.get(key)
        if (
            isinstance(value, torch.Tensor)
            and isinstance(present, torch.Tensor)
            and (present.shape, present.dtype) == (value.shape, value.dtype)
        ):
            present.detach().copy_(value)
        else:
            old[key] = value


def _load_in_place(optimizer: torch.optim.Optimizer, received: dict[str, Any]) -> None:
    """Loads a state into the groups and tensors that there are.

    `load_state_dict` makes new ones, while learning-rate schedulers, and the optimizer that a
    wrapped one was made of, go on with the old ones.
    """
    groups, state = optimizer.param_groups, optimizer.state
    old_groups, old_state = list(groups), dict(state)
    optimizer.load_state_dict(received)
    for group, loaded in zip(old_groups, optimizer.param_groups, strict=True):
        _take_over(group, loaded)
    new_state = dict(optimizer.state)
    state.clear()
    for key, value in new_state.items():
        known = old_state.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            for gone in known.keys() - value.keys():
                del known[gone]
            _take_over(known, value)
            state[key] = known
        else:
            state[key] = value
    groups[:] = old_groups
    optimizer.param_groups, optimizer.state = groups, state


def _zero_missing_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Gives parameters without a gradient one of zeros, which scripts then find as under Horovod.

    Horovod makes a step with them, which fills the state; under weight decay, it moves parameters.
    """
    sparse = isinstance(optimizer, torch.optim.SparseAdam)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                zeros = torch.zeros_like(parameter)
                parameter.grad = zeros.to_sparse(1) if sparse else zeros


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,  # noqa: ARG001 - Horovod's signature; the state says it all
) -> None:
    """Overwrites an optimizer's state and options with the root's.

    Ranks whose optimizer has no state yet get the root's; where that has none, so have all. The
    groups stay the same objects, as do the tensors of the state where shape and type agree. Where
    there was no state, parameters that have no gradient get zeros as one.

    Args:
        optimizer: of the same parameters on all ranks.
        root_rank: whose state it gets.
        model: not needed.

    Raises:
        ValueError: the optimizer is LBFGS, whose state cannot be sent.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")  # noqa: TRY004 - Horovod's error
    if not any(optimizer.state.values()):
        _zero_missing_gradients(optimizer)
    tensors: list[torch.Tensor] = []
    if rank() == root_rank:
        skeleton = _take_tensors(optimizer.state_dict(), tensors)
        _objects.broadcast_object(skeleton, root_rank, "optimizer_state")
        state = None
    else:
        skeleton = _objects.broadcast_object(None, root_rank, "optimizer_state")
        state = _put_tensors(skeleton, tensors)
    handles = [
        broadcast_async_(tensor, root_rank, f"optimizer_state.{index}")
        for index, tensor in enumerate(tensors)
    ]
    for handle in handles:
        synchronize(handle)
    if state is not None:
        _load_in_place(optimizer, state)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends the root's object to all ranks; the others' are not looked at.

    Args:
        obj: anything that cloudpickle, or pickle where that is not installed, can serialise.
        root_rank: whose object it is.
        name: of the operation, or None.
        process_set: whose ranks take part.
    """
    return _objects.broadcast_object(obj, root_rank, name, registered_id(process_set))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Collects one object of every rank; returns them by rank."""
    return _objects.allgather_object(obj, name)
