"""The distributed optimizer for Adasum: what each rank's own step changes is summed adaptively."""

import contextlib
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from horovod._reduce_op import require_power_of_2
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import size_of
from horovod.torch.compression import Compressor
from horovod.torch.gradient_hooks import GradientHook, remove
from horovod.torch.gradient_reduction import TOO_MANY_PASSES, ZERO_GRAD_PROHIBITED, Reduction
from horovod.torch.gradients_in_flight import Parameter
from horovod.torch.missing_gradients import zeros_for
from horovod.torch.mpi_ops import Adasum, Sum, allreduce, grouped_allreduce_async, synchronize
from horovod.torch.participation import Participation
from horovod.torch.wrapping import (
    derive,
    leaving_hooks_to_the_wrapped,
    load_sharing,
    note_step,
    require_passes,
)


class Passes:
    """Counts the backward passes that have added to gradients since the last step.

    Args:
        allowed: how many there may be.
        participation: whether this rank takes part; else it counts nothing.
    """

    def __init__(self, allowed: int, participation: Participation) -> None:
        self.allowed = allowed
        self._participation = participation
        self.seen: dict[Parameter, int] = {}
        self.settled = False  # the gradients may go, and these passes be forgotten
        self.evaluating = False  # a closure, within a step
        self._hooks: dict[Parameter, GradientHook] = {}
        self._handles: list[Any] = []
        weakref.finalize(self, remove, self._handles).atexit = False

    def watch(self, groups: Sequence[Mapping[str, Any]]) -> None:
        """Follows the gradients of all parameters that need one and are not followed yet."""
        for group in groups:
            for parameter in group["params"]:
                if parameter.requires_grad and parameter not in self._hooks:
                    self._hooks[parameter] = GradientHook(parameter, self, parameter, self._handles)

    def follows(self, parameter: Parameter) -> bool:
        """Whether a parameter has needed a gradient before."""
        return parameter in self._hooks

    def count(self, parameter: Parameter, _: torch.Tensor | None = None) -> None:
        """Notes that a backward pass has added to a gradient.

        Raises:
            AssertionError: it was one too many, with Horovod's text.
        """
        if not self._participation.here():
            return
        seen = self.seen.get(parameter, 0) + 1
        if seen > self.allowed:
            raise AssertionError(TOO_MANY_PASSES)
        self.seen[parameter] = seen
        self.settled = False

    def begin(self) -> None:
        """Forgets the passes of a step that has been made."""
        for parameter, hook in self._hooks.items():
            if parameter not in self.seen and parameter.grad is not None:
                hook.renew()
        self.forget()

    def forget(self) -> None:
        """There were none."""
        self.seen.clear()
        self.settled = False


def _entries(gradient: torch.Tensor) -> torch.Tensor:
    """Those that a gradient has, of a sparse one its values, to look at and write to."""
    whole = gradient.detach()
    return whole if whole.layout is torch.strided else whole._values()  # noqa: SLF001 - `values()` is of coalesced ones


def _worst_of(gradients: Sequence[torch.Tensor]) -> float:
    """NaN where one has that, else infinity where one has that, else 0."""
    worst = 0.0
    for entries in gradients:
        if not torch.isfinite(entries).all():
            if torch.isnan(entries).any():
                return math.nan
            worst = math.inf
    return worst


class AdasumStep(torch.optim.Optimizer):
    """Each rank steps with its own gradients; parameters move by the adaptive sum of the steps."""

    _wrapped: type[torch.optim.Optimizer]
    _reduction: Reduction
    _passes: Passes
    _participation: Participation
    _parameter_names: dict[Parameter, str]

    @leaving_hooks_to_the_wrapped
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters with the steps of all ranks; on other ranks with its own."""
        note_step(self)
        if not self._participation.here():
            self._passes.begin()
            return (
                self._wrapped.step(self) if closure is None else self._wrapped.step(self, closure)
            )
        moving = self._moving()
        before = {parameter: parameter.detach().clone() for parameter in moving}
        if closure is None:
            loss = self._wrapped.step(self)
        else:
            loss = self._wrapped.step(self, self._counting_anew(closure))
        compression = self._reduction.compression
        pairs = [
            compression.compress(parameter.detach() - start) for parameter, start in before.items()
        ]
        handle = grouped_allreduce_async(
            [compressed for compressed, _ in pairs],
            name=f"adasum.deltas.{self._first_of(moving)}",
            op=Adasum,
            process_set=self._reduction.process_set,
        )
        try:
            summed = synchronize(handle)
        except HorovodInternalError:
            self._passes.forget()
            raise
        for (parameter, start), delta, (_, context) in zip(
            before.items(), summed, pairs, strict=True
        ):
            parameter.detach().copy_(start + compression.decompress(delta, context))
        self._passes.begin()
        return loss

    def _moving(self) -> list[Parameter]:
        """What this step may change, in an order that all ranks have: their groups may differ.

        A parameter that needs no gradient any more may have one, and moves.
        """
        self._passes.watch(self.param_groups)
        moving = [
            parameter
            for group in self.param_groups
            for parameter in group["params"]
            if self._passes.follows(parameter)
        ]
        names = self._parameter_names
        return sorted(moving, key=lambda each: (each not in names, names.get(each, "")))

    def _first_of(self, moving: Sequence[Parameter]) -> str:
        """What tells this optimizer's operations from others'."""
        return self._parameter_names.get(moving[0], "") if moving else ""

    def _counting_anew(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            self._passes.forget()
            self._passes.evaluating = True
            try:
                return closure()
            finally:
                self._passes.evaluating = False

        return evaluate

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As the wrapped optimizer's, refused between a backward pass and the step.

        Raises:
            AssertionError: `synchronize` was not called in between either, with Horovod's text.
        """
        if self._passes.settled:
            self._passes.forget()
        if self._passes.seen:
            raise AssertionError(ZERO_GRAD_PROHIBITED)
        self._wrapped.zero_grad(self, *args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Takes over a state, and forgets the passes of a step that has not been made."""
        self._forget_gradients()
        load_sharing(self, *args, **kwargs)

    def _forget_gradients(self) -> None:
        self._passes.forget()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, which move by the sum of the steps too."""
        self._wrapped.add_param_group(self, param_group)
        self._passes.watch(self.param_groups)

    def synchronize(self) -> None:
        """Has all ranks know of a gradient that is not finite, so that a scaler decides alike.

        Those without one get one, if need be in place of none. Nothing is on its way before a
        step. `zero_grad` may follow.
        """
        self._passes.settled = True
        # Within a step, ranks may evaluate a closure a different number of times.
        if self._passes.evaluating or not self._participation.here():
            return
        moving = self._moving()
        parameters = (each for group in self.param_groups for each in group["params"])
        gradients = [_entries(each.grad) for each in parameters if each.grad is not None]
        own = _worst_of(gradients)
        found = allreduce(
            torch.tensor(own, device="cpu"),
            op=Sum,
            name=f"adasum.infinite.{self._first_of(moving)}",
            process_set=self._reduction.process_set,
        ).item()
        if math.isfinite(found) or math.isnan(own) or found == own:
            return
        for entries in gradients:
            if entries.numel():
                entries[(0,) * entries.dim()] = found
                return
        for parameter in moving:
            if parameter.numel():
                parameter.grad = zeros_for(parameter).fill_(found)
                return

    def skip_synchronize(self) -> contextlib.AbstractContextManager[None]:
        """Not possible here.

        Raises:
            AssertionError: always, with Horovod's text.
        """
        raise AssertionError(
            "Skipping synchronization is not supported when using Adasum optimizer."
        )

    @property
    def _compression(self) -> type[Compressor]:
        """Horovod's name for how steps travel."""
        return self._reduction.compression

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes may add up locally before a step."""
        require_passes(passes)
        self._passes.allowed = passes

    @property
    def backward_passes_per_step(self) -> int:
        """How many backward passes may add up locally before a step."""
        return self._passes.allowed

    @backward_passes_per_step.setter
    def backward_passes_per_step(self, passes: int) -> None:
        self.set_backward_passes_per_step(passes)


def wrap_for_adasum(
    optimizer: torch.optim.Optimizer,
    reduction: Reduction,
    passes: int,
    attributes: Mapping[str, Any],
) -> Any:
    """Wraps an optimizer; see `DistributedOptimizer`.

    Raises:
        NotImplementedError: the number of ranks is not a power of two.
    """
    require_power_of_2(size_of(reduction.process_set))
    participation = Participation(reduction.process_set)
    counted = Passes(passes, participation)
    counted.watch(optimizer.param_groups)
    return derive(
        optimizer,
        AdasumStep,
        _reduction=reduction,
        _passes=counted,
        _participation=participation,
        **attributes,
    )
