"""Wraps an optimizer so that its steps use the gradients of all ranks."""
# ruff: noqa: FBT001, FBT002 - Horovod's signatures

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from horovod import _settings
from horovod._call_site import warn_at_call_site
from horovod._reduce_op import choose_op
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, global_process_set, require_process_set
from horovod.common.util import split_list
from horovod.torch.adasum_optimizer import AdasumStep, wrap_for_adasum
from horovod.torch.buckets import BucketReducer, bucket_bytes
from horovod.torch.compression import Compression, Compressor, require_compression
from horovod.torch.freed_memory import keep_freed_memory
from horovod.torch.functions import broadcast_object
from horovod.torch.gradient_reduction import ZERO_GRAD_TOO_EARLY, Reduction
from horovod.torch.gradients import GradientReducer
from horovod.torch.mpi_ops import (
    Adasum,
    Average,
    Sum,
    allreduce_async_,
    grouped_allreduce_async_,
    is_initialized,
    rocm_built,
    size,
    sparse_allreduce_async,
    synchronize,
)
from horovod.torch.parameter_groups import group_parameters
from horovod.torch.parameter_names import name_parameters, numbered, unused_number
from horovod.torch.private_attributes import PrivateAttributes
from horovod.torch.wrapping import (
    derive,
    is_derived,
    leave_uncompiled,
    leaving_hooks_to_the_wrapped,
    load_sharing,
    note_step,
    outside_inference_mode,
    require_passes,
)

# What `import *` gives, which in Horovod is all that this module imports itself.
__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "ProcessSet",
    "Sum",
    "allreduce_async_",
    "broadcast_object",
    "global_process_set",
    "grouped_allreduce_async_",
    "rocm_built",
    "size",
    "sparse_allreduce_async",
    "split_list",
    "synchronize",
]

_SYNCHRONIZED_TWICE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after"
    " optimizer.synchronize(). This can cause training slowdown. You may want to consider using"
    " optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code."
)


_SCALED_TOO_EARLY = (
    "GradScaler unscales gradients, or looks for infinite ones, while they are on their way: call"
    " optimizer.synchronize() before scaler.unscale_() and scaler.step(), and make the step within"
    " optimizer.skip_synchronize(). Else ranks come to differ, as each may change what it sends, or"
    " what it has got."
)
_SCALES = "_step_supports_amp_scaling"
_WRAPPED_ALONE = (
    "this optimizer was wrapped in a job of one rank, and so sends no gradients; the job has {}"
    " ranks now: wrap a new optimizer with hvd.DistributedOptimizer after hvd.init()"
)
_NO_BUCKETS = (
    "bucket_cap_mb has no effect without gradient_as_bucket_view=True; how many gradients travel"
    " together is up to HOROVOD_FUSION_THRESHOLD, and to groups"
)
_NUM_GROUPS = "Parameter `num_groups` has been replaced by `groups` and will be removed in v0.23.0."


class DistributedStep(PrivateAttributes, torch.optim.Optimizer):
    """What a wrapped optimizer does besides; its class has these methods (`derive`)."""

    _wrapped: type[torch.optim.Optimizer]
    _reduces: bool
    _synchronized: bool
    _should_synchronize: bool
    _evaluating: bool

    @leave_uncompiled  # it would be anew for each parameter
    def synchronize(self) -> None:
        """Waits for the gradients of all ranks, to look at or to clip before `step`.

        Raises:
            RuntimeError: the optimizer was wrapped in a job of one rank, and there are more now.
        """
        if self._reduces:
            with outside_inference_mode():
                self._reducer.synchronize(self.param_groups)
        elif is_initialized() and size() > 1:
            raise RuntimeError(_WRAPPED_ALONE.format(size()))
        self._synchronized = True

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """As the wrapped optimizer's; `GradScaler.step` alone asks, before it unscales gradients.

        Its arithmetic leaves no trace in their versions.
        """
        if self._should_synchronize and self._reducer.sending:
            warn_at_call_site(_SCALED_TOO_EARLY)
        scales: bool = vars(self).get(_SCALES, getattr(self._wrapped, _SCALES, False))
        return scales

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, scales: bool) -> None:
        vars(self)[_SCALES] = scales

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it `step` does not synchronise, because the user has done so before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    @leaving_hooks_to_the_wrapped
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters with the gradients of all ranks.

        Args:
            closure: evaluates the model anew; its gradients are reduced whenever it is called.
        """
        note_step(self)
        if closure is not None:
            if self._should_synchronize and self._reducer.sending:
                self.synchronize()
            return self._wrapped.step(self, self._synchronizing(closure))
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(_SYNCHRONIZED_TWICE, stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return self._wrapped.step(self)

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            self._evaluating = True
            try:
                loss = closure()
            finally:
                self._evaluating = False
            # A closure without a backward pass, or one that has synchronised, leaves nothing to do.
            if self._should_synchronize and (self._reducer.busy or not self._synchronized):
                self.synchronize()
            self._synchronized = False
            return loss

        return evaluate

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As the wrapped optimizer's, refused while gradients are on their way."""
        if self._reducer.busy:
            if not self._evaluating or self._reducer.sending:
                raise AssertionError(ZERO_GRAD_TOO_EARLY)
            self._reducer.drain()  # a closure begins anew, after fewer passes than a step has
        if self._synchronized:
            self._forget_synchronized()
        if self._given_groups is not None:
            self._follow_unfrozen()
        self._wrapped.zero_grad(self, *args, **kwargs)

    @leave_uncompiled  # PyTorch 2.11's compiler fails where `zero_grad` itself sets an attribute
    def _forget_synchronized(self) -> None:
        self._synchronized = False  # of gradients that there are no more

    @leave_uncompiled
    def _follow_unfrozen(self) -> None:
        """Has parameters that were frozen travel with their group from their first pass on.

        So they do on a rank that is new in an elastic job, and others followed them long ago.
        """
        if self._reduces:
            self._reducer.watch(self.param_groups)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes add up locally before a step."""
        require_passes(passes)
        self._reducer.passes = passes

    @property
    def backward_passes_per_step(self) -> int:
        """How many backward passes add up locally before a step."""
        return self._reducer.passes

    @backward_passes_per_step.setter
    def backward_passes_per_step(self, passes: int) -> None:
        self.set_backward_passes_per_step(passes)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Takes over a state; gradients that are on their way are awaited, no others sent.

        Reductions that have failed are forgotten: this is how a state is restored after a loss.
        """
        self._forget_gradients()
        load_sharing(self, *args, **kwargs)

    def _forget_gradients(self) -> None:
        with contextlib.suppress(HorovodInternalError):
            self._reducer.drain()
        self._synchronized = False

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, whose gradients are reduced too."""
        self._wrapped.add_param_group(self, param_group)
        if not self._reduces:
            return
        number = unused_number(len(self.param_groups) - 1, self._parameter_names.values())
        added = self.param_groups[-1]
        for place, parameter in enumerate(added["params"]):
            self._parameter_names.setdefault(parameter, numbered(number, place))
        self._reducer.watch([*[{"params": ()}] * number, added])  # which numbers by position
        self._reducer.watch(self.param_groups)


# Horovod's names.
_DistributedOptimizer = DistributedStep
_DistributedAdasumOptimizer = AdasumStep


def _require_buckets_possible(op: int, compression: type[Compressor], groups: Any) -> None:
    """Refuses what gradients in buckets cannot do.

    Raises:
        ValueError: an argument excludes gradient_as_bucket_view.
    """
    excluded = {
        "op=Adasum": op == Adasum,
        f"compression={getattr(compression, '__name__', compression)}": (
            compression is not Compression.none
        ),
        "groups": groups is not None,
    }
    if found := [argument for argument, given in excluded.items() if given]:
        raise ValueError(
            "gradient_as_bucket_view reduces gradients where they are, in buckets of its own, which"
            f" excludes {' and '.join(found)}; leave one of them out"
        )


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int | None = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    gradient_as_bucket_view: bool = False,
    bucket_cap_mb: float | None = None,
) -> Any:
    """Wraps an optimizer so that each step uses the gradients of all ranks.

    A gradient is sent as soon as the backward pass has completed it, and the script's own hooks
    (`Tensor.register_post_accumulate_grad_hook`) have seen it. The result shares state, options and
    parameters with the optimizer that was passed, and is an instance of its class.

    Args:
        optimizer: any optimizer.
        named_parameters: `model.named_parameters()`; without it the parameters are numbered.
        compression: how gradients travel.
        backward_passes_per_step: passes whose gradients add up locally before they are sent.
        op: how gradients are combined, Average by default.
        gradient_predivide_factor: with Average: divide by it before the sum, multiply after it.
        num_groups: deprecated, use `groups`.
        groups: gradients that are sent together: a number of groups, or lists of parameters.
        sparse_as_dense: reduces sparse gradients as dense ones; they are sparse again afterwards.
        process_set: whose ranks take part; on other ranks the optimizer works alone. Each step asks
            who they are.
        gradient_as_bucket_view: gradients live in buckets that all ranks of a host map, and are
            reduced there (`shared_empty`): each `grad` becomes a view into its bucket, also after
            `zero_grad(set_to_none=True)`. On the CPU, with dense gradients and no compression.
        bucket_cap_mb: how large such a bucket of more than one gradient may be, in MiB; None for
            HOROVOD_FUSION_THRESHOLD where it is set, else 25. What the first rank says counts.

    Raises:
        ValueError: bad arguments, with Horovod's texts; arguments that exclude each other; or the
            optimizer is wrapped already.
        NotImplementedError: Adasum on a number of ranks that is not a power of two.
        TypeError: process_set is none.
    """
    if is_derived(optimizer):
        raise ValueError("the optimizer has been wrapped by DistributedOptimizer already")
    require_passes(backward_passes_per_step)
    op = choose_op(op, average=None, adasum=True)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if gradient_predivide_factor == 0 or not math.isfinite(gradient_predivide_factor):
        raise ValueError(
            "gradient_predivide_factor must be a finite number other than 0,"
            f" got {gradient_predivide_factor}"
        )
    require_compression(compression)
    require_process_set(process_set)
    room = bucket_bytes(bucket_cap_mb, os.environ)
    if bucket_cap_mb is not None and not gradient_as_bucket_view:
        warnings.warn(_NO_BUCKETS, stacklevel=2)
    if num_groups != 0:
        warnings.warn(_NUM_GROUPS, DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if gradient_as_bucket_view:
        _require_buckets_possible(op, compression, groups)
    names = name_parameters(optimizer.param_groups, named_parameters)
    grouped = group_parameters(groups, names)
    reduction = Reduction(op, compression, gradient_predivide_factor, process_set, sparse_as_dense)
    reduces = size() > 1 or _settings.ELASTIC.read(os.environ)
    if reduces:
        keep_freed_memory()
    attributes: dict[str, Any] = {
        "_parameter_names": names,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "sparse_as_dense": sparse_as_dense,
        "process_set": process_set,
    }
    if op == Adasum and reduces:
        return wrap_for_adasum(optimizer, reduction, backward_passes_per_step, attributes)
    reducer: GradientReducer | BucketReducer
    if gradient_as_bucket_view and reduces:
        reducer = BucketReducer(names, reduction, backward_passes_per_step, room)
    else:
        reducer = GradientReducer(names, reduction, backward_passes_per_step, grouped)
    wrapped = derive(
        optimizer,
        DistributedStep,
        _reducer=reducer,
        _given_groups=groups,
        _reduces=reduces,
        _synchronized=False,
        _should_synchronize=True,
        _evaluating=False,
        **attributes,
    )
    if reduces:
        reducer.watch(wrapped.param_groups)
    return wrapped
