"""Wraps an optimizer so that its steps use the gradients of all ranks."""
# ruff: noqa: FBT001, FBT002 - Horovod's signatures

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch

from horovod.common.process_sets import ProcessSet, global_process_set, require_global
from horovod.torch.compression import Compression, Compressor
from horovod.torch.gradients import (
    ZERO_GRAD_TOO_EARLY,
    GradientReducer,
    Reduction,
    name_parameters,
)
from horovod.torch.mpi_ops import Adasum, Average, size

_SYNCHRONIZED_TWICE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after"
    " optimizer.synchronize(). This can cause training slowdown. You may want to consider using"
    " optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code."
)


_Step = TypeVar("_Step", bound=Callable[..., Any])


def _leaving_hooks_to_the_wrapped(step: _Step) -> _Step:
    """Keeps PyTorch, which looks for this mark, from running step hooks around this step too."""
    step.__dict__["hooked"] = True
    return step


class DistributedStep(torch.optim.Optimizer):
    """What a wrapped optimizer does besides: stands before the user's class in the method order."""

    _reducer: GradientReducer
    _synchronized: bool
    _should_synchronize: bool

    def synchronize(self) -> None:
        """Waits for the gradients of all ranks, to look at or to clip before `step`."""
        if size() > 1:
            self._reducer.synchronize(self.param_groups)
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it `step` does not synchronise, because the user has done so before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    @_leaving_hooks_to_the_wrapped
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters with the gradients of all ranks.

        Args:
            closure: evaluates the model anew; its gradients are reduced whenever it is called.
        """
        if closure is not None:
            if self._should_synchronize and self._reducer.busy:
                self.synchronize()
            self._synchronized = False
            return super().step(self._synchronizing(closure))
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(_SYNCHRONIZED_TWICE, stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return super().step()

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            loss = closure()
            if self._should_synchronize:
                self.synchronize()
                self._synchronized = False
            return loss

        return evaluate

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As the wrapped optimizer's, refused while gradients are on their way."""
        if self._reducer.busy:
            raise AssertionError(ZERO_GRAD_TOO_EARLY)
        super().zero_grad(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes add up locally before a step."""
        _require_passes(passes)
        self._reducer.passes = passes

    def load_state_dict(self, state_dict: Any) -> None:
        """Takes over a state; gradients that are on their way are awaited, no others sent."""
        self._reducer.drain()
        self._synchronized = False
        super().load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, whose gradients are reduced too."""
        super().add_param_group(param_group)
        if size() > 1:
            self._reducer.watch(self.param_groups)


def _require_passes(passes: int) -> None:
    if passes <= 0:
        raise ValueError("backward_passes_per_step must be > 0")


def _refuse_unsupported(op: int, num_groups: int, groups: Any, sparse_as_dense: bool) -> None:
    refused = [
        text
        for wanted, text in (
            (op == Adasum, "op=Adasum"),
            (num_groups != 0, "num_groups"),
            (groups is not None, "groups"),
            (sparse_as_dense, "sparse_as_dense"),
        )
        if wanted
    ]
    if refused:
        raise NotImplementedError(
            f"DistributedOptimizer: {', '.join(refused)} is not supported yet by horovod-variants"
        )


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Wraps an optimizer so that each step uses the gradients of all ranks.

    A gradient is sent as soon as the backward pass has completed it. The result shares state,
    options and parameters with the optimizer that was passed, and is an instance of its class.

    Args:
        optimizer: any optimizer.
        named_parameters: `model.named_parameters()`; without it the parameters are numbered.
        compression: how gradients travel.
        backward_passes_per_step: passes whose gradients add up locally before they are sent.
        op: how gradients are combined, Average by default.
        gradient_predivide_factor: with Average: divide by it before the sum, multiply after it.
        num_groups: not supported yet.
        groups: not supported yet.
        sparse_as_dense: not supported yet.
        process_set: must be the global one for now.

    Raises:
        ValueError: bad arguments, with Horovod's texts; or the optimizer is wrapped already.
        NotImplementedError: what is not supported yet.
    """
    if isinstance(optimizer, DistributedStep):
        raise ValueError("the optimizer has been wrapped by DistributedOptimizer already")  # noqa: TRY004 - a bad value, not a bad type
    _refuse_unsupported(op, num_groups, groups, sparse_as_dense)
    require_global(process_set)
    _require_passes(backward_passes_per_step)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    names = name_parameters(optimizer.param_groups, named_parameters)
    kind = type(optimizer)
    wrapped: Any = object.__new__(type(kind.__name__, (DistributedStep, kind), {}))
    wrapped.__dict__.update(optimizer.__dict__)
    wrapped.__dict__.pop("step", None)  # a learning-rate scheduler's wrapper around the original's
    wrapped._synchronized = False  # noqa: SLF001 - its own, set here as it has no constructor
    wrapped._should_synchronize = True  # noqa: SLF001 - as above
    wrapped._reducer = GradientReducer(  # noqa: SLF001 - as above
        names,
        Reduction(op, compression, gradient_predivide_factor, process_set),
        backward_passes_per_step,
    )
    if size() > 1:
        wrapped._reducer.watch(wrapped.param_groups)  # noqa: SLF001 - as above
    return wrapped
