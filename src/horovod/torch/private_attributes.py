"""Attributes of Horovod's wrapped optimizer that are not its interface, but that scripts use."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any

import torch

from horovod.torch.buckets import BucketReducer
from horovod.torch.compression import Compressor
from horovod.torch.gradients import GradientReducer
from horovod.torch.gradients_in_flight import Parameter
from horovod.torch.missing_gradients import zeros_for
from horovod.torch.reduction import start_allreduce
from horovod.torch.sparse import sparse_allreduce_async


class PrivateAttributes:
    """What is true here of Horovod's attributes; all but `_requires_update` are read-only."""

    _reducer: GradientReducer | BucketReducer
    _parameter_names: dict[Parameter, str]
    _given_groups: Any

    @property
    def _compression(self) -> type[Compressor]:
        """How gradients travel."""
        return self._reducer.reduction.compression

    @property
    def _requires_update(self) -> AbstractSet[Parameter]:
        """Parameters that get a gradient of zeros where no backward pass has made one.

        Scripts empty it, so that weight decay and momentum leave unused parameters alone.
        """
        return self._reducer.required

    @_requires_update.setter
    def _requires_update(self, parameters: Iterable[Parameter]) -> None:
        self._reducer.required = parameters

    @property
    def _allreduce_delay(self) -> Mapping[Parameter, int]:
        """How many backward passes are missing until a gradient is sent."""
        reducer = self._reducer
        return MappingProxyType(
            {each: reducer.passes - reducer.passes_of(each) for each in self._parameter_names}
        )

    @property
    def _handles(self) -> Mapping[Parameter, tuple[Any, Any]]:
        """What waits for each gradient that is on its way, and the compressor's context.

        Both are None of gradients that are not sent yet. Members of a group stand there one by one.
        """
        return MappingProxyType(dict(self._reducer.under_way()))

    def _allreduce_grad_async(self, p: Parameter) -> tuple[Any, Any]:
        """Starts reducing a gradient by itself, whatever its hook does.

        Args:
            p: the parameter whose gradient it is; one of zeros where it has none.

        Returns:
            What waits for it (of a sparse one, to be called), and the compressor's context; whoever
            asks for them waits, and decompresses.
        """
        if p.grad is None:
            p.grad = zeros_for(p)
        name, reduction, gradient = self._parameter_names[p], self._reducer.reduction, p.grad
        if gradient.layout is not torch.strided:
            if not reduction.sparse_as_dense:
                how = (reduction.op, reduction.process_set)
                return sparse_allreduce_async(gradient, name, *how), None
            gradient = gradient.to_dense()
        compressed, context = reduction.compression.compress(gradient)
        return start_allreduce(compressed, name, *reduction.how, in_place=True), context

    @property
    def _groups(self) -> Any:
        """The argument `groups`."""
        return self._given_groups

    @property
    def _p_to_group(self) -> Mapping[Parameter, tuple[Parameter, ...]]:
        """The group of each parameter that is reduced; empty without groups."""
        if self._given_groups is None:
            return MappingProxyType({})
        groups = self._reducer.group_of
        return MappingProxyType(
            {
                each: tuple(
                    member for member in groups.get(id(each), (each,)) if member.requires_grad
                )
                for each in self._parameter_names
                if each.requires_grad
            }
        )
