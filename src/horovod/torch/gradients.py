"""Reduces gradients while the backward pass still runs."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from horovod.common.process_sets import ProcessSet
from horovod.torch.compression import Compressor
from horovod.torch.mpi_ops import Average, allreduce_async_, synchronize

Parameter = torch.Tensor

TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step()."
    " Increase backward_passes_per_step to accumulate gradients locally."
)
ZERO_GRAD_TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or"
    " optimizer.synchronize(). This is prohibited as it can cause a race condition."
)


@dataclass(frozen=True)
class Reduction:
    """How gradients are reduced.

    Attributes:
        predivide: with Average, gradients are divided by it before the sum and multiplied after it.
    """

    op: int
    compression: type[Compressor]
    predivide: float
    process_set: ProcessSet


@dataclass(frozen=True)
class _InFlight:
    handle: int
    compressed: torch.Tensor
    context: Any


def name_parameters(
    groups: Sequence[dict[str, Any]], named: Iterable[tuple[str, Parameter]] | None
) -> dict[Parameter, str]:
    """Finds a name for each parameter, the same on all ranks.

    Args:
        groups: the optimizer's parameter groups.
        named: `model.named_parameters()`; None to number the parameters.

    Raises:
        ValueError: with Horovod's texts, when the names are not usable.
    """
    if named is None:
        return {
            parameter: f"allreduce.noname.{i}.{j}"
            for i, group in enumerate(groups)
            for j, parameter in enumerate(group["params"])
        }
    pairs = list(named)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by"
            " model.named_parameters()."
        )
    counts = Counter(name for name, _ in pairs)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise ValueError(
            "Parameter names in named_parameters must be unique. Found duplicates:"
            f" {', '.join(duplicates)}"
        )
    by_parameter = {parameter: name for name, parameter in pairs}
    unnamed = [
        id(parameter)
        for group in groups
        for parameter in group["params"]
        if parameter not in by_parameter
    ]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named."
            f" Python object ids: {', '.join(map(str, unnamed))}"
        )
    return by_parameter


class GradientReducer:
    """Starts a gradient's reduction when it is complete, and waits for all of them.

    Parameters live longer than their optimizers: their hooks do not keep the reducer alive, and go
    with it, so that the next optimizer of the same model has the gradients for itself.

    Args:
        names: of the parameters.
        reduction: how.
        passes: number of backward passes that add up locally before a reduction.
    """

    def __init__(self, names: dict[Parameter, str], reduction: Reduction, passes: int) -> None:
        self._names = names
        self._reduction = reduction
        self.passes = passes
        self._seen: dict[Parameter, int] = {}
        self._in_flight: dict[Parameter, _InFlight] = {}
        self._watched: set[Parameter] = set()
        self._hooks: list[Any] = []
        weakref.finalize(self, _remove, self._hooks).atexit = False

    @property
    def busy(self) -> bool:
        """Whether gradients are on their way, or have been counted for a later reduction."""
        return bool(self._in_flight or self._seen)

    def watch(self, groups: Sequence[dict[str, Any]]) -> None:
        """Follows the gradients of all parameters that need one and are not followed yet."""
        for i, group in enumerate(groups):
            for j, parameter in enumerate(group["params"]):
                if parameter.requires_grad and parameter not in self._watched:
                    self._names.setdefault(parameter, f"allreduce.noname.{i}.{j}")
                    self._watched.add(parameter)
                    self._hooks.append(
                        parameter.register_post_accumulate_grad_hook(_make_hook(self))
                    )

    def count(self, parameter: Parameter) -> None:
        """Notes that a backward pass has added to a gradient; sends it after the last pass.

        Raises:
            AssertionError: it has been sent already, with Horovod's text.
        """
        seen = self._seen.get(parameter, 0) + 1
        if parameter in self._in_flight or seen > self.passes:
            raise AssertionError(TOO_MANY_PASSES)
        self._seen[parameter] = seen
        if seen == self.passes:
            self._start(parameter)

    def _start(self, parameter: Parameter) -> None:
        if parameter.grad is None:
            # Another rank may have a gradient for it, as models may differ in what they execute.
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad.layout != torch.strided:
            raise NotImplementedError(
                f"the gradient of {self._names[parameter]} is sparse; sparse gradients are not"
                " supported yet by horovod-variants"
            )
        reduction = self._reduction
        compressed, context = reduction.compression.compress(parameter.grad)
        divided = reduction.op == Average and reduction.predivide != 1.0
        handle = allreduce_async_(
            compressed,
            name=self._names[parameter],
            op=reduction.op,
            prescale_factor=1.0 / reduction.predivide if divided else 1.0,
            postscale_factor=reduction.predivide if divided else 1.0,
            process_set=reduction.process_set,
        )
        self._in_flight[parameter] = _InFlight(handle, compressed, context)

    def synchronize(self, groups: Sequence[dict[str, Any]]) -> None:
        """Waits until all parameters have their reduced gradients."""
        self.watch(groups)
        for group in groups:
            for parameter in group["params"]:
                if parameter in self._watched and parameter not in self._in_flight:
                    self._start(parameter)
        self.drain()

    def drain(self) -> None:
        """Waits for what is on its way, starts nothing, and forgets what has been counted."""
        try:
            for parameter, flight in self._in_flight.items():
                reduced = self._reduction.compression.decompress(
                    synchronize(flight.handle), flight.context
                )
                if parameter.grad is not None and reduced is not parameter.grad:
                    parameter.grad.detach().copy_(reduced)
        finally:
            self._in_flight.clear()
            self._seen.clear()


def _make_hook(reducer: GradientReducer) -> Callable[[Parameter], None]:
    reference = weakref.ref(reducer)

    def on_gradient(parameter: Parameter) -> None:
        if (alive := reference()) is not None:
            alive.count(parameter)

    return on_gradient


def _remove(hooks: list[Any]) -> None:
    for hook in hooks:
        hook.remove()
