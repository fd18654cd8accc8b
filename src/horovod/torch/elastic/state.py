"""Models, optimizers and samplers as state that survives the loss of ranks."""

import copy
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import torch

from horovod._standard_error import say
from horovod.common.elastic import ObjectState, copied, remember
from horovod.torch.elastic.model_parts import (
    buffers_of,
    is_no_parameter,
    make_room,
    on_cpu,
    outline_of,
)
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.missing_gradients import zeros_for
from horovod.torch.mpi_ops import rank
from horovod.torch.operands import repeats_elements
from horovod.torch.optimizer_state import Snapshot, load, take
from horovod.torch.wrapping import forget_gradients


def _copy_leaf(value: Any, memo: dict[int, Any]) -> Any:
    """A copy; of a tensor that has been computed, one without the graph, which has no copies."""
    if isinstance(value, torch.Tensor) and not value.is_leaf and id(value) not in memo:
        remember(value, value.detach().clone(), memo)
    return copy.deepcopy(value, memo)


class StateHandler:
    """Keeps one value of a `TorchState` that cannot simply be copied.

    Args:
        value: the model, optimizer, …
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Keeps the value's state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to what was kept."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the state of rank 0; `save` keeps it when all others have theirs."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Another object takes the place of the value."""
        self.value = value
        self.save()


def _parameters_with_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    each = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return [parameter for parameter in each if parameter.grad is not None]


def _has_dense_gradient(parameter: torch.Tensor) -> bool:
    return parameter.grad is not None and parameter.grad.layout == torch.strided


def _others(state: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a model's state that are no parameters or buffers."""
    return {name: value for name, value in state.items() if is_no_parameter(name, value)}


class ModelStateHandler(StateHandler):
    """Keeps a model's parameters and buffers."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.save()

    def save(self) -> None:
        """Keeps copies."""
        self._saved = copy.deepcopy(self.value.state_dict())
        self._buffers = buffers_of(self.value)

    def restore(self) -> None:
        """Goes back to them."""
        make_room(self.value, self._saved, self._buffers)
        state = copy.copy(self._saved)  # with its `_metadata`
        # Of what is no tensor to copy from, a module may keep the object itself, and change it.
        state.update(copy.deepcopy(_others(state)))
        self.value.load_state_dict(state)

    def sync(self) -> None:
        """Broadcasts rank 0's; what modules tell by `get_extra_state`, as objects.

        All as objects where the ranks' models differ, as one does that has not come to its first
        step, if that makes buffers.
        """
        state = self.value.state_dict()
        outline = outline_of(state)
        if not all(allgather_object(outline == broadcast_object(outline))):
            state, buffers = broadcast_object((on_cpu(state), buffers_of(self.value)))
            if rank() != 0:
                make_room(self.value, state, buffers)
                self.value.load_state_dict(state)
            return
        others = _others(state)
        tensors = {name: value for name, value in state.items() if name not in others}
        broadcast_parameters(tensors, root_rank=0)
        if others:
            others = broadcast_object(others)
            if rank() != 0:
                state.update(others)
                self.value.load_state_dict(state)


class OptimizerStateHandler(StateHandler):
    """Keeps an optimizer's state and options."""

    _had_gradients: AbstractSet[int] = frozenset()  # none where a subclass has its own `save`

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)
        self.save()

    def save(self) -> None:
        """Keeps copies."""
        self._had_gradients = {id(each) for each in _parameters_with_gradients(self.value)}
        snapshot = take(self.value)
        self._saved = Snapshot(copy.deepcopy(snapshot.told), snapshot.exact)

    def restore(self) -> None:
        """Goes back to them; gradients since then, also those on their way, are dropped."""
        self.drop_gradients()
        load(self.value, Snapshot(copy.deepcopy(self._saved.told), self._saved.exact))

    def drop_gradients(self) -> None:
        """Has nothing of an interrupted backward pass, or of the last step, in the next one.

        Those that were there when the state was kept, as in memory of the script's, become zero.
        """
        forget_gradients(self.value)
        for parameter in _parameters_with_gradients(self.value):
            gradient = parameter.grad
            parameter.grad = None
            if gradient is None or id(parameter) not in self._had_gradients:
                continue
            if gradient.layout == torch.strided and not repeats_elements(gradient):
                parameter.grad = gradient.detach().zero_()

    def sync(self) -> None:
        """Broadcasts rank 0's; gradients that were on their way are forgotten on all ranks.

        Where rank 0 has a gradient, all have one, elsewhere none has: what is dense on some ranks
        must not be sparse on others.
        """
        forget_gradients(self.value)
        broadcast_optimizer_state(self.value, root_rank=0)
        parameters = [each for group in self.value.param_groups for each in group["params"]]
        dense = [_has_dense_gradient(each) for each in parameters]
        for parameter, root_has in zip(parameters, broadcast_object(dense), strict=False):
            if root_has != _has_dense_gradient(parameter):
                parameter.grad = zeros_for(parameter) if root_has else None


class LRSchedulerStateHandler(StateHandler):
    """Keeps how far a learning-rate scheduler has come; its optimizer keeps the rates."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.save()

    def save(self) -> None:
        """Keeps copies."""
        self._saved = copied(self.value.state_dict(), _copy_leaf)

    def restore(self) -> None:
        """Goes back to them."""
        self.value.load_state_dict(copied(self._saved, _copy_leaf))

    def sync(self) -> None:
        """Broadcasts rank 0's."""
        state = broadcast_object(self.value.state_dict())
        if rank() != 0:
            self.value.load_state_dict(state)


class SamplerStateHandler(StateHandler):
    """Keeps how far a sampler has come."""

    def __init__(self, sampler: ElasticSampler) -> None:
        super().__init__(sampler)
        self.save()

    def save(self) -> None:
        """Keeps a copy."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Goes back to it."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Broadcasts rank 0's, and spreads the rest over the ranks that there are."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))


class DistributedSamplerStateHandler(StateHandler):
    """Keeps the epoch of PyTorch's sampler, whose dataset, rank and size are the rank's own."""

    def __init__(self, sampler: torch.utils.data.DistributedSampler[Any]) -> None:
        super().__init__(sampler)
        self.save()

    def save(self) -> None:
        """Keeps the number."""
        self._saved: int = self.value.epoch

    def restore(self) -> None:
        """Goes back to it."""
        self.value.set_epoch(self._saved)

    def sync(self) -> None:
        """Broadcasts rank 0's."""
        self.value.set_epoch(broadcast_object(self.value.epoch))


Registry = list[tuple[type, type[StateHandler]]]

_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (torch.optim.lr_scheduler.LRScheduler, LRSchedulerStateHandler),
    # In PyTorch before 2.2 no LRScheduler.
    (torch.optim.lr_scheduler.ReduceLROnPlateau, LRSchedulerStateHandler),
    (ElasticSampler, SamplerStateHandler),
    (torch.utils.data.DistributedSampler, DistributedSamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Which class is kept by which handler; the first one that fits counts.

    Returns:
        The list itself: what is added to it counts for states made from then on.
    """
    return _registry


def set_handler_registry(registry: Registry) -> None:
    """Puts another list in its place."""
    global _registry  # noqa: PLW0603 - as in Horovod, the former list stays what it was
    _registry = registry


def _handler_for(value: Any) -> type[StateHandler] | None:
    return next((handler for kind, handler in _registry if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """A model, an optimizer, samplers and any other values, committed and restored together.

    Args:
        model: may be None.
        optimizer: may be None.
        kwargs: further values; modules, optimizers, learning-rate schedulers and samplers
            (`ElasticSampler`, PyTorch's `DistributedSampler`) among them are kept by their state
            and never replaced, others are copied. What such a name is assigned later is kept in the
            same way, and so is a module, optimizer, … under another name that begins with no `_`.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        handlers: dict[str, StateHandler] = {}
        plain: dict[str, Any] = {}
        for name, value in {**kwargs, "model": model, "optimizer": optimizer}.items():
            kind = _handler_for(value)
            if kind is None:
                plain[name] = value
            else:
                handlers[name] = kind(value)
        self._handlers = handlers
        for name, handler in handlers.items():
            super().__setattr__(name, handler.value)
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **plain)

    def _copy(self, value: Any, memo: dict[int, Any] | None = None) -> Any:
        return copied(value, _copy_leaf, memo)

    def save(self) -> None:
        """Keeps everything in memory."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Goes back to what was kept."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Gives all ranks everything of rank 0, and keeps it when all of it has come.

        A rank that is new may lack what the training function assigns: that stays each rank's own.
        """
        everyones = allgather_object(list(self._handlers))
        for name in everyones[0]:
            if all(name in names for names in everyones):
                self._handlers[name].sync()
            elif name not in self._handlers:
                say(
                    f"The elastic state of rank {rank()}, which is new, lacks `{name}`, which rank"
                    " 0 has: what the training function assigns here begins anew and may differ"
                    " from the other ranks'. Assign it before that function is called"
                )
        super().sync()
        for handler in self._handlers.values():
            handler.save()

    def reset(self) -> None:
        """Spreads what samplers have left over the ranks that there are now.

        Gradients that were on their way, to ranks that are no more, are forgotten, and those that
        are there dropped: new ranks have none, and training functions begin with a backward pass.
        """
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
            elif isinstance(handler, OptimizerStateHandler):
                handler.drop_gradients()
            elif isinstance(handler.value, torch.optim.Optimizer):
                forget_gradients(handler.value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Keeps a value as the constructor would; another model takes the place of the one before.

        What a script's own subclass calls `_something` is left alone.
        """
        if "_handlers" in self.__dict__:
            known = name in self._handlers or name in self.__dict__.get("_saved_state", {})
            if known or not name.startswith("_"):
                self._choose_handler(name, value)
        super().__setattr__(name, value)

    def _choose_handler(self, name: str, value: Any) -> None:
        present, kind = self._handlers.get(name), _handler_for(value)
        if present is None:
            if kind is not None:
                self._handlers[name] = kind(value)
                self._saved_state = {k: v for k, v in self._saved_state.items() if k != name}
            return
        if kind is None and value is not None and _handler_for(present.value) is None:
            kind = type(present)  # of a registry that is no longer there
        if kind is type(present):
            present.set_value(value)
        elif kind is not None:
            self._handlers[name] = kind(value)
        else:
            del self._handlers[name]
            self._saved_state = {**self._saved_state, name: self._copy(value)}
