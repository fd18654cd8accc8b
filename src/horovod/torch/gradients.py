"""Reduces gradients while the backward pass still runs."""

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from horovod._reduce_op import Adasum, choose_op
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet
from horovod.torch.compression import Compressor, Outgoing, outgoing
from horovod.torch.grouped import start_grouped_allreduce
from horovod.torch.handles import synchronize
from horovod.torch.reduction import start_allreduce
from horovod.torch.sparse import sparse_allreduce_async

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
        predivide: gradients are divided by it before the sum and multiplied after it.
        sparse_as_dense: whether sparse gradients are made dense and reduced like the others.
    """

    op: int
    compression: type[Compressor]
    predivide: float
    process_set: ProcessSet
    sparse_as_dense: bool = False


@dataclass(frozen=True)
class _InFlight:
    """A gradient on its way; of a sparse one, or one of a group, the handle waits for it."""

    handle: int | Callable[[], torch.Tensor]
    sent: Outgoing


class _Group:
    """Gradients that travel together, and arrive when the first of them is asked for.

    Args:
        handle: of the grouped operation.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._results: list[torch.Tensor] | None = None

    def result(self, position: int) -> torch.Tensor:
        """The gradient at a position of the group."""
        if self._results is None:
            self._results = synchronize(self._handle)
        if self._results is None:
            raise HorovodInternalError("the reduction of a group of gradients has failed")
        return self._results[position]


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
        groups: parameters whose gradients are sent together, once all of them are complete.
    """

    def __init__(
        self,
        names: dict[Parameter, str],
        reduction: Reduction,
        passes: int,
        groups: Sequence[Sequence[Parameter]] = (),
    ) -> None:
        self._names = names
        self._reduction = reduction
        self.passes = passes
        self._group_of = {parameter: group for group in groups for parameter in group}
        self._complete: set[Parameter] = set()
        self._sparse_dimensions: dict[Parameter, int] = {}
        self._seen: dict[Parameter, int] = {}
        self._in_flight: dict[Parameter, _InFlight] = {}
        self._watched: set[Parameter] = set()
        self._hooks: list[Any] = []
        weakref.finalize(self, remove, self._hooks).atexit = False

    @property
    def _how(self) -> tuple[int, float, float, ProcessSet]:
        """The reduction, its factors before and after, and whose ranks take part."""
        reduction = self._reduction
        op = reduction.op if reduction.op == Adasum else choose_op(reduction.op, average=None)
        return op, 1.0 / reduction.predivide, reduction.predivide, reduction.process_set

    @property
    def busy(self) -> bool:
        """Whether gradients are on their way, or have been counted for a later reduction."""
        return bool(self._in_flight or self._seen)

    @property
    def watching(self) -> bool:
        """Whether it follows any gradients, and so has to be waited for."""
        return bool(self._watched)

    def watch(self, groups: Sequence[dict[str, Any]]) -> None:
        """Follows the gradients of all parameters that need one and are not followed yet."""
        for i, group in enumerate(groups):
            for j, parameter in enumerate(group["params"]):
                if parameter.requires_grad and parameter not in self._watched:
                    self._names.setdefault(parameter, f"allreduce.noname.{i}.{j}")
                    self._watched.add(parameter)
                    self._hooks.append(follow(parameter, self))

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
            self._finish(parameter)

    def _finish(self, parameter: Parameter) -> None:
        """Sends a gradient that is complete, or its group when it was the last of it."""
        group = self._group_of.get(parameter)
        if group is None:
            self._start(parameter)
            return
        self._complete.add(parameter)
        members = [member for member in group if member in self._watched]
        if all(member in self._complete for member in members):
            self._complete.difference_update(members)
            self._start_group(members)

    def _ready_gradient(self, parameter: Parameter) -> torch.Tensor:
        """A parameter's gradient, as it will be sent."""
        gradient = parameter.grad
        if gradient is None:
            # Another rank may have a gradient for it, as models may differ in what they execute.
            gradient = parameter.grad = self._nothing(parameter)
        if gradient.layout != torch.strided:
            self._sparse_dimensions[parameter] = gradient.sparse_dim()
            if self._reduction.sparse_as_dense:
                gradient = parameter.grad = gradient.to_dense()
        return gradient

    def _start(self, parameter: Parameter) -> None:
        gradient = self._ready_gradient(parameter)
        if gradient.layout != torch.strided:
            self._start_sparse(parameter, gradient)
            return
        reduction = self._reduction
        sent = outgoing(gradient, reduction.compression, reduction.op)
        handle = start_allreduce(
            sent.tensor,
            self._names[parameter],
            *self._how,
            in_place=True,
            wire_dtype=sent.wire_dtype,
        )
        self._in_flight[parameter] = _InFlight(handle, sent)

    def _start_group(self, members: Sequence[Parameter]) -> None:
        """Sends gradients together; sparse ones, and other types than the first one's, go alone."""
        reduction = self._reduction
        together: list[tuple[Parameter, Outgoing]] = []
        for parameter in members:
            gradient = self._ready_gradient(parameter)
            if gradient.layout != torch.strided:
                self._start_sparse(parameter, gradient)
                continue
            sent = outgoing(gradient, reduction.compression, reduction.op)
            if together and sent.travels_as != together[0][1].travels_as:
                self._start(parameter)
            else:
                together.append((parameter, sent))
        if not together:
            return
        handle = start_grouped_allreduce(
            [sent.tensor for _, sent in together],
            f"group.{self._names[together[0][0]]}",
            *self._how,
            in_place=True,
            wire_dtypes=[sent.wire_dtype for _, sent in together],
        )
        group = _Group(handle)
        for position, (parameter, sent) in enumerate(together):
            self._in_flight[parameter] = _InFlight(functools.partial(group.result, position), sent)

    def _start_sparse(self, parameter: Parameter, gradient: torch.Tensor) -> None:
        finish = sparse_allreduce_async(
            gradient, self._names[parameter], self._reduction.op, self._reduction.process_set
        )
        self._in_flight[parameter] = _InFlight(finish, Outgoing(gradient, None))

    def _nothing(self, parameter: Parameter) -> torch.Tensor:
        """An empty gradient of the kind that the parameter has had on this rank."""
        dimensions = self._sparse_dimensions.get(parameter)
        if dimensions is not None and not self._reduction.sparse_as_dense:
            return torch.sparse_coo_tensor(
                torch.empty((dimensions, 0), dtype=torch.int64),
                torch.empty((0, *parameter.shape[dimensions:]), dtype=parameter.dtype),
                parameter.shape,
                check_invariants=False,
            )
        return torch.zeros_like(parameter)

    def synchronize(self, groups: Sequence[dict[str, Any]]) -> None:
        """Waits until all parameters have their reduced gradients."""
        self.watch(groups)
        for group in groups:
            for parameter in group["params"]:
                if parameter not in self._watched or parameter in self._in_flight:
                    continue
                if parameter not in self._complete:
                    self._finish(parameter)
        self.drain()

    def drain(self) -> None:
        """Waits for what is on its way, starts nothing, and forgets what has been counted.

        Raises:
            HorovodInternalError: a reduction failed; the others have been waited for nevertheless.
        """
        failure: HorovodInternalError | None = None
        for parameter, flight in self._in_flight.items():
            try:
                self._land(parameter, flight)
            except HorovodInternalError as error:  # noqa: PERF203 - each of them may fail
                failure = failure or error
        self._in_flight.clear()
        self._seen.clear()
        self._complete.clear()
        if failure is not None:
            raise failure

    def _land(self, parameter: Parameter, flight: _InFlight) -> None:
        arrived = synchronize(flight.handle) if isinstance(flight.handle, int) else flight.handle()
        if arrived.layout != torch.strided:
            parameter.grad = arrived
            return
        reduced = self._reduction.compression.decompress(arrived, flight.sent.context)
        if parameter.grad is not None and reduced is not parameter.grad:
            parameter.grad.detach().copy_(reduced)


class Counts(Protocol):
    """What is told about gradients."""

    def count(self, parameter: Parameter) -> None:
        """A backward pass has added to a gradient."""


def follow(parameter: Parameter, reducer: Counts) -> Any:
    """Tells a reducer about a parameter's gradient, without keeping the reducer alive.

    Returns:
        The hook, for `remove`.
    """
    reference = weakref.ref(reducer)

    def on_gradient(parameter: Parameter) -> None:
        if (alive := reference()) is not None:
            alive.count(parameter)

    untyped: Any = parameter
    return untyped.register_post_accumulate_grad_hook(on_gradient)


def remove(hooks: list[Any]) -> None:
    """Ends what `follow` has begun."""
    for hook in hooks:
        hook.remove()
