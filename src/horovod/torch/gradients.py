"""Reduces gradients while the backward pass still runs."""

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet
from horovod.torch.compression import Compressor, Outgoing, outgoing
from horovod.torch.grouped import start_grouped_allreduce
from horovod.torch.handles import synchronize
from horovod.torch.reduction import start_allreduce
from horovod.torch.sparse import sparse_allreduce_async

Parameter = torch.Tensor
Followed_contra = TypeVar("Followed_contra", contravariant=True)

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
        op: Average, Sum, Min, Max, Product or Adasum.
        sparse_as_dense: whether sparse gradients travel dense, like the others.
    """

    op: int
    compression: type[Compressor]
    predivide: float
    process_set: ProcessSet
    sparse_as_dense: bool = False

    @functools.cached_property
    def how(self) -> tuple[int, float, float, ProcessSet]:
        """The op, the factors before and after, and whose ranks take part."""
        return self.op, 1.0 / self.predivide, self.predivide, self.process_set


class _InFlight(NamedTuple):
    """A gradient on its way; of a sparse one, or one of a group, the handle waits for it."""

    handle: int | Callable[[], torch.Tensor]
    sent: Outgoing


class _Gradient:
    """A parameter's gradient, and how far it has come.

    Hooks of autograd run between the steps of the backward pass, so that what they need is here
    and not looked up by the parameter, whose hash is a call of Python code.

    Args:
        parameter: whose gradient it is.
        name: under which it is reduced.
        group: the parameters whose gradients travel with it; None when it travels alone.

    Attributes:
        seen: number of backward passes that have added to it.
        complete: whether it waits for others of its group.
        flight: what is known while it is on its way.
    """

    __slots__ = ("complete", "flight", "group", "name", "parameter", "seen")

    def __init__(self, parameter: Parameter, name: str, group: Sequence[Parameter] | None) -> None:
        self.parameter = parameter
        self.name = name
        self.group = group
        self.seen = 0
        self.complete = False
        self.flight: _InFlight | None = None


class _Group:
    """Gradients that travel together, and arrive when the first of them is asked for.

    Args:
        handle: of the grouped operation.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._results: Sequence[torch.Tensor] | None = None

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
        self._group_of = {id(parameter): group for group in groups for parameter in group}
        self._gradients: dict[int, _Gradient] = {}  # by the parameters' ids
        self._sent: list[_Gradient] = []  # that are on their way, in this order
        self._sparse_dimensions: dict[Parameter, int] = {}
        self._hooks: list[Any] = []
        weakref.finalize(self, remove, self._hooks).atexit = False

    @property
    def busy(self) -> bool:
        """Whether gradients are on their way, or have been counted for a later reduction."""
        return bool(self._sent) or any(gradient.seen for gradient in self._gradients.values())

    @property
    def watching(self) -> bool:
        """Whether it follows any gradients, and so has to be waited for."""
        return bool(self._gradients)

    def watch(self, groups: Sequence[dict[str, Any]]) -> None:
        """Follows the gradients of all parameters that need one and are not followed yet."""
        for i, group in enumerate(groups):
            for j, parameter in enumerate(group["params"]):
                if id(parameter) in self._gradients or not parameter.requires_grad:
                    continue
                name = self._names.setdefault(parameter, f"allreduce.noname.{i}.{j}")
                gradient = _Gradient(parameter, name, self._group_of.get(id(parameter)))
                self._gradients[id(parameter)] = gradient
                self._hooks.append(follow(parameter, self, gradient))

    def count(self, gradient: _Gradient) -> None:
        """Notes that a backward pass has added to a gradient; sends it after the last pass.

        Raises:
            AssertionError: it has been sent already, with Horovod's text.
        """
        seen = gradient.seen + 1
        if gradient.flight is not None or seen > self.passes:
            raise AssertionError(TOO_MANY_PASSES)
        gradient.seen = seen
        if seen == self.passes:
            self._finish(gradient)

    def _finish(self, gradient: _Gradient) -> None:
        """Sends a gradient that is complete, or its group when it was the last of it."""
        if gradient.group is None:
            if (sent := self._outgoing(gradient)) is not None:
                self._start(gradient, sent)
            return
        gradient.complete = True
        members = [
            self._gradients[id(member)]
            for member in gradient.group
            if id(member) in self._gradients
        ]
        if all(member.complete for member in members):
            for member in members:
                member.complete = False
            self._start_group(members)

    def _ready_gradient(self, parameter: Parameter) -> torch.Tensor:
        """A parameter's gradient as it will be sent; a sparse one stays so on this rank."""
        gradient = parameter.grad
        if gradient is None:
            # Another rank may have a gradient for it, as models may differ in what they execute.
            gradient = parameter.grad = self._nothing(parameter)
        if gradient.layout != torch.strided:
            self._sparse_dimensions[parameter] = gradient.sparse_dim()
            if self._reduction.sparse_as_dense:
                return gradient.to_dense()
        return gradient

    def _send(self, gradient: _Gradient, flight: _InFlight) -> None:
        gradient.flight = flight
        self._sent.append(gradient)

    def _outgoing(self, gradient: _Gradient) -> Outgoing | None:
        """What is to be sent of a complete gradient; a sparse one is sent here, and gives None."""
        ready = self._ready_gradient(gradient.parameter)
        if ready.layout is torch.strided:
            return outgoing(ready, self._reduction.compression, self._reduction.op)
        self._start_sparse(gradient, ready)
        return None

    def _start(self, gradient: _Gradient, sent: Outgoing) -> None:
        handle = start_allreduce(
            sent.tensor,
            gradient.name,
            *self._reduction.how,
            in_place=True,
            wire_dtype=sent.wire_dtype,
        )
        self._send(gradient, _InFlight(handle, sent))

    def _start_group(self, members: Sequence[_Gradient]) -> None:
        """Sends gradients together; sparse ones, and other types than the first one's, go alone."""
        together: list[tuple[_Gradient, Outgoing]] = []
        for member in members:
            if (sent := self._outgoing(member)) is None:
                continue
            if together and sent.travels_as != together[0][1].travels_as:
                self._start(member, sent)
            else:
                together.append((member, sent))
        if not together:
            return
        handle = start_grouped_allreduce(
            [sent.tensor for _, sent in together],
            f"group.{together[0][0].name}",
            *self._reduction.how,
            in_place=True,
            wire_dtypes=[sent.wire_dtype for _, sent in together],
        )
        group = _Group(handle)
        for position, (member, sent) in enumerate(together):
            self._send(member, _InFlight(functools.partial(group.result, position), sent))

    def _start_sparse(self, gradient: _Gradient, sparse: torch.Tensor) -> None:
        reduction = self._reduction
        finish = sparse_allreduce_async(sparse, gradient.name, reduction.op, reduction.process_set)
        self._send(gradient, _InFlight(finish, Outgoing(sparse, None)))

    def _nothing(self, parameter: Parameter) -> torch.Tensor:
        """An empty gradient of the kind that the parameter has had on this rank."""
        dimensions = self._sparse_dimensions.get(parameter)
        if dimensions is not None:
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
                gradient = self._gradients.get(id(parameter))
                if gradient is None or gradient.flight is not None or gradient.complete:
                    continue
                self._finish(gradient)
        self.drain()

    def drain(self) -> None:
        """Waits for what is on its way, starts nothing, and forgets what has been counted.

        Raises:
            HorovodInternalError: a reduction failed; the others have been waited for nevertheless.
        """
        failure: HorovodInternalError | None = None
        for gradient in self._sent:
            try:
                self._land(gradient)
            except HorovodInternalError as error:  # noqa: PERF203 - each of them may fail
                failure = failure or error
        self._sent.clear()
        for gradient in self._gradients.values():
            gradient.seen = 0
            gradient.complete = False
            gradient.flight = None
        if failure is not None:
            raise failure

    def _land(self, gradient: _Gradient) -> None:
        flight, parameter = gradient.flight, gradient.parameter
        if flight is None:  # landed before Ctrl-C ended the wait for a later one
            return
        handle = flight.handle
        arrived = synchronize(handle) if isinstance(handle, int) else handle()
        gradient.flight = None
        if arrived.layout is not torch.strided:
            parameter.grad = arrived
            return
        reduced = self._reduction.compression.decompress(arrived, flight.sent.context)
        own = parameter.grad
        if own is None or own is reduced:
            return
        if own.layout is torch.strided:
            own.detach().copy_(reduced)
        else:
            # It has travelled dense; SparseAdam, for example, takes sparse ones alone.
            parameter.grad = reduced.to_sparse(own.sparse_dim())


class Counts(Protocol[Followed_contra]):
    """What is told about gradients."""

    def count(self, gradient: Followed_contra, /) -> None:
        """A backward pass has added to a gradient."""


def follow(
    parameter: Parameter, reducer: Counts[Followed_contra], gradient: Followed_contra
) -> Any:
    """Tells a reducer about a parameter's gradient, without keeping the reducer alive.

    Args:
        parameter: whose gradient it is.
        reducer: what is told.
        gradient: by which the reducer knows the gradient.

    Returns:
        The hook, for `remove`.
    """
    reference = weakref.ref(reducer)

    def on_gradient(_: Parameter) -> None:
        if (alive := reference()) is not None:
            alive.count(gradient)

    untyped: Any = parameter
    return untyped.register_post_accumulate_grad_hook(on_gradient)


def remove(hooks: list[Any]) -> None:
    """Ends what `follow` has begun."""
    for hook in hooks:
        hook.remove()
