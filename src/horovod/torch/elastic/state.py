"""Models, optimizers and samplers as state that survives the loss of ranks."""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.mpi_ops import rank


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
        """Gives all ranks the state of rank 0, and keeps it."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Another object takes the place of the value."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Keeps a model's parameters and buffers."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.save()

    def save(self) -> None:
        """Keeps copies."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Goes back to them."""
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        """Broadcasts rank 0's."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """Keeps an optimizer's state and options."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)
        self.save()

    def save(self) -> None:
        """Keeps copies."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Goes back to them; gradients that were on their way are forgotten."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Broadcasts rank 0's."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


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
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        """Broadcasts rank 0's, and spreads the rest over the ranks that there are."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


Registry = list[tuple[type, type[StateHandler]]]

_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Which class is kept by which handler; the first one that fits counts."""
    return list(_registry)


def set_handler_registry(registry: Sequence[tuple[type, type[StateHandler]]]) -> None:
    """Changes which class is kept by which handler, for states made from now on."""
    _registry[:] = registry


def _make_handler(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None


class TorchState(ObjectState):
    """A model, an optimizer, samplers and any other values, committed and restored together.

    Args:
        model: may be None.
        optimizer: may be None.
        kwargs: further values; modules, optimizers and `ElasticSampler`s among them are kept by
            their state, others are copied.
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
            handler = _make_handler(value)
            if handler is None:
                plain[name] = value
            else:
                handlers[name] = handler
        self._handlers = handlers
        for name, handler in handlers.items():
            super().__setattr__(name, handler.value)
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **plain)

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
        """Gives all ranks everything of rank 0."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        """Spreads what samplers have left over the ranks that there are now."""
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        """Another model, optimizer or sampler is kept instead of the one before."""
        handlers: dict[str, StateHandler] = self.__dict__.get("_handlers", {})
        if name in handlers:
            handlers[name].set_value(value)
        super().__setattr__(name, value)
