"""Gradients in buckets that all ranks of a host map, each reduced where it is."""

import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch

from horovod import _settings
from horovod._session import SESSION, Member
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.bucket import Bucket
from horovod.torch.bucket_agreement import agree_on_bucket_bytes, in_one_order
from horovod.torch.bucket_layout import Layout, lay_out
from horovod.torch.changed_gradients import ChangedGradients, versions_of
from horovod.torch.gradient_hooks import GradientHook, remove
from horovod.torch.gradient_places import sharing_memory
from horovod.torch.gradient_reduction import TOO_MANY_PASSES, Reduction
from horovod.torch.gradients_in_flight import Parameter
from horovod.torch.handles import synchronize
from horovod.torch.missing_gradients import gradient_dtype
from horovod.torch.operands import repeats_elements
from horovod.torch.parameter_names import numbered
from horovod.torch.participation import Participation
from horovod.torch.reduction import allreduce_async_
from horovod.torch.shared_memory import shared_empty

_DEFAULT_CAP_MB = 25


def bucket_bytes(cap_mb: float | None, environ: Mapping[str, str]) -> int:
    """How large a bucket of more than one gradient may be.

    Args:
        cap_mb: in MiB; None for HOROVOD_FUSION_THRESHOLD where that is set, else 25.
        environ: the environment variables.

    Raises:
        ValueError: it is negative or infinite, or the variable is not usable.
    """
    if cap_mb is None:
        if _settings.FUSION_THRESHOLD.is_given(environ):
            return _settings.FUSION_THRESHOLD.read(environ)
        cap_mb = _DEFAULT_CAP_MB
    if not 0 <= cap_mb < math.inf:
        raise ValueError(f"bucket_cap_mb must be finite and not negative, got {cap_mb}")
    return int(cap_mb * 2**20)


class BucketReducer:
    """Starts a bucket's reduction when its gradients are complete, and waits for all of them.

    The buckets are made by the first step, and again after a new `init()` or when the process set
    has other members, since all of these take part: their backward passes may come to a first
    gradient at different points of the work.

    Args:
        names: of the parameters.
        reduction: how; without compression.
        passes: number of backward passes that add up locally before a reduction.
        bucket_bytes: how large a bucket of more than one gradient may be; the first rank's counts.

    Attributes:
        reduction: see above.
        group_of: empty, as there are no groups beside the buckets.
    """

    def __init__(
        self,
        names: Mapping[Parameter, str],
        reduction: Reduction,
        passes: int,
        bucket_bytes: int,
    ) -> None:
        self._names = dict(names)
        self.reduction = reduction
        self.group_of: Mapping[int, Sequence[Parameter]] = {}
        self.passes = passes
        self._bucket_bytes = bucket_bytes
        self._watched: list[Parameter] = []
        self._unplaced: list[Parameter] = []
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[Parameter, Bucket] = {}
        self._participation = Participation(reduction.process_set)
        self._made_with: tuple[Member | None, int | None] = (None, None)
        self._seen: dict[Parameter, int] = {}
        self._settled = False  # whether all of a step has landed, and is being forgotten
        self._failure: HorovodInternalError | None = None  # of the step that lands
        self._changed = ChangedGradients()
        self._sparse_dimensions: dict[Parameter, int] = {}  # of those that are sparse again then
        self._hooks: dict[Parameter, GradientHook] = {}
        self._handles: list[Any] = []
        weakref.finalize(self, remove, self._handles).atexit = False

    @property
    def busy(self) -> bool:
        """Whether gradients are on their way, or have been counted for a later reduction."""
        if self._seen or self._settled:
            return True
        return any(bucket.handle is not None for bucket in self._buckets)

    @property
    def sending(self) -> bool:
        """Whether gradients are on their way, or would be if others of their bucket were there."""
        return any(seen >= self.passes for seen in self._seen.values())

    def watch(self, groups: Sequence[dict[str, Any]]) -> None:
        """Follows the gradients of all parameters that need one and are not followed yet.

        Raises:
            ValueError: a parameter is not on the CPU.
        """
        known = set(self._watched)
        for i, group in enumerate(groups):
            for j, parameter in enumerate(group["params"]):
                if not parameter.requires_grad or parameter in known:
                    continue
                name = self._names.setdefault(parameter, numbered(i, j))
                if not parameter.is_cpu:
                    raise ValueError(
                        f"gradient_as_bucket_view keeps gradients in memory that the processes of"
                        f" a host share, but parameter {name!r} is on {parameter.device}; leave"
                        f" the argument out for parameters on a GPU"
                    )
                self._watched.append(parameter)
                self._unplaced.append(parameter)
                self._hooks[parameter] = GradientHook(parameter, self, parameter, self._handles)

    @property
    def required(self) -> AbstractSet[Parameter]:
        """Parameters of which every step sends a gradient: all that are followed."""
        return frozenset(self._watched)

    @required.setter
    def required(self, _: Iterable[Parameter]) -> None:
        raise ValueError(
            "gradient_as_bucket_view reduces whole buckets, with a gradient of zeros for each"
            " parameter that has none; leave it out to keep parameters without a gradient"
        )

    def passes_of(self, parameter: Parameter) -> int:
        """How many backward passes have added to a parameter's gradient since the last step."""
        return self._seen.get(parameter, 0)

    def under_way(self) -> Mapping[Parameter, tuple[Any, Any]]:
        """Of gradients that have been counted their bucket's handle, None before it is sent."""
        buckets = {each: self._bucket_of.get(each) for each in self._seen}
        return {each: (bucket and bucket.handle, None) for each, bucket in buckets.items()}

    def count(self, parameter: Parameter, _: torch.Tensor | None = None) -> None:
        """Notes that a backward pass has added to a gradient; after the last it is complete.

        Raises:
            AssertionError: it was complete before, with Horovod's text.
        """
        if not self._participation.here():
            return
        seen = self._seen.get(parameter, 0) + 1
        if seen > self.passes:
            raise AssertionError(TOO_MANY_PASSES)
        self._seen[parameter] = seen
        if seen == self.passes and self._has_place(parameter):
            self._complete(parameter)

    def _complete(self, parameter: Parameter) -> None:
        gradient, name = parameter.grad, self._names[parameter]
        if gradient is not None and gradient.layout != torch.strided:
            if not self.reduction.sparse_as_dense:
                raise ValueError(
                    f"the gradient of {name!r} is sparse and has no place in a bucket; use"
                    " sparse_as_dense=True, or leave gradient_as_bucket_view out"
                )
            self._sparse_dimensions[parameter] = gradient.sparse_dim()
            parameter.grad = gradient.to_dense()
        bucket = self._bucket_of[parameter]
        bucket.take(parameter)
        bucket.missing.discard(parameter)
        if not bucket.missing:
            self._start(bucket)

    def _start(self, bucket: Bucket) -> None:
        reduction = self.reduction
        bucket.handle = allreduce_async_(
            bucket.flat,
            name=bucket.name,
            op=reduction.op,
            prescale_factor=1.0 / reduction.predivide,
            postscale_factor=reduction.predivide,
            process_set=reduction.process_set,
        )
        bucket.versions = versions_of(bucket.views)

    def synchronize(self, groups: Sequence[dict[str, Any]]) -> None:
        """Waits until all parameters have their reduced gradients; other ranks keep their own."""
        self.watch(groups)
        if self._settled or not self._participation.here():
            self.drain()
            return
        if self._made_with != self._others() and self._sent_all_before():
            return
        self._make_buckets(groups)
        for bucket in self._buckets:
            if bucket.handle is None:
                for parameter in list(bucket.missing):
                    if parameter in self._seen:
                        self._hooks[parameter].use()
                    elif parameter.grad is not None:
                        self._hooks[parameter].renew()
                    self._complete(parameter)
                if bucket.handle is None:  # it was complete, and could not be sent
                    self._start(bucket)
            self._changed.compare(self._names, bucket.views, bucket.versions)
            bucket.versions = {}
        self.drain()

    def _sent_all_before(self) -> bool:
        """Waits for what was sent in an earlier job, or to other members; nothing is sent twice.

        Returns:
            Whether that was all; False where nothing was.

        Raises:
            HorovodInternalError: it was a part, or has been lost.
        """
        under_way = [bucket.handle is not None for bucket in self._buckets]
        if not any(under_way):
            return False
        everything = all(under_way) and not self._unplaced
        self.drain()
        if not everything:
            raise HorovodInternalError(
                "some gradients have been reduced before the job, or the process set's members,"
                " changed, and others have not: run the backward pass again"
            )
        return True

    def drain(self) -> None:
        """Waits for what is on its way, starts nothing, and forgets what has been counted.

        What else is raised meanwhile, as by a signal's handler, leaves all as it is: the next call
        goes on where this one has come to.

        Raises:
            HorovodInternalError: a reduction failed; the others have been waited for nevertheless.
        """
        self._take_back()
        for bucket in self._buckets:
            try:
                self._land(bucket)
            except HorovodInternalError as error:  # noqa: PERF203 - each of them may fail
                self._failure = self._failure or error
        self._settled = True
        for bucket in self._buckets:
            bucket.missing = set(bucket.views)
            bucket.handle, bucket.landed = None, False
        self._seen.clear()
        failure, self._failure, self._settled = self._failure, None, False
        if failure is not None:
            try:
                raise failure
            finally:
                # Its traceback holds this frame, and with that what else the job had.
                del failure

    def _take_back(self) -> None:
        """Gives gradients their places back that scripts have put where results would meet."""
        elsewhere = {
            parameter: view
            for bucket in self._buckets
            if bucket.handle is not None and not bucket.landed
            for parameter, view in bucket.views.items()
            if (own := parameter.grad) is not None and own is not view
        }
        if elsewhere:
            shared = sharing_memory(elsewhere, [bucket.flat for bucket in self._buckets])
            for parameter, view in elsewhere.items():
                own = parameter.grad
                if id(parameter) in shared or (own is not None and repeats_elements(own)):
                    parameter.grad = view

    def _land(self, bucket: Bucket) -> None:
        if bucket.handle is None or bucket.landed:
            return
        # Of this job, nothing comes back where an interrupted call has waited for it.
        if synchronize(bucket.handle) is None and self._made_with[0] is not SESSION.current:
            raise HorovodInternalError(
                f"the result of {bucket.name!r} is lost: the job in which it was sent has ended"
            )
        for parameter in bucket.views:
            bucket.hand_out(parameter)
            if (dimensions := self._sparse_dimensions.get(parameter)) is not None:
                parameter.grad = bucket.views[parameter].to_sparse(dimensions)
        bucket.landed = True

    def _has_place(self, parameter: Parameter) -> bool:
        """Whether a gradient can be sent before the step."""
        return (
            self._made_with == self._others()
            and parameter in self._bucket_of
            and not self._is_converted(parameter)
        )

    def _others(self) -> tuple[Member | None, int | None]:
        """The job and the members by which buckets are made."""
        return SESSION.member, self._participation.number()

    def _is_converted(self, parameter: Parameter) -> bool:
        """Whether its gradients are of another type than their place."""
        return gradient_dtype(parameter) != self._bucket_of[parameter].flat.dtype

    def _leave_places(self) -> None:
        """Has new buckets made in place of those that have room for another type of numbers."""
        left = [
            bucket
            for bucket in self._buckets
            if bucket.handle is None and any(map(self._is_converted, bucket.views))
        ]
        if not left:
            return
        self._buckets = [bucket for bucket in self._buckets if bucket not in left]
        self._bucket_of = {each: bucket for bucket in self._buckets for each in bucket.views}
        self._unplaced = [each for each in self._watched if each not in self._bucket_of]

    def _make_buckets(self, groups: Sequence[dict[str, Any]]) -> None:
        if self._made_with != (others := self._others()):
            # Memory of an earlier job, or of other members, is only read by this rank.
            self._made_with = others
            self._buckets, self._bucket_of = [], {}
            self._unplaced = list(self._watched)
        self._leave_places()
        if not self._unplaced:
            return
        # The backward pass comes to the last ones first.
        added = in_one_order(self._unplaced, groups)[::-1]
        process_set = self.reduction.process_set
        room = agree_on_bucket_bytes(self._names, added, self._bucket_bytes, process_set)
        for layout in lay_out(added, room):
            self._add(layout)
        self._unplaced = []

    def _add(self, layout: Layout) -> None:
        parameters = list(layout.offsets)
        memory = shared_empty(
            layout.ends[-1],
            dtype=layout.dtype,
            process_set=self.reduction.process_set,
            name=f"gradients.{self._names[parameters[0]]}",
        )
        begin = 0
        for end in layout.ends:
            inside = [each for each in parameters if begin <= layout.offsets[each] < end]
            offsets = {each: layout.offsets[each] - begin for each in inside}
            bucket = Bucket(f"bucket.{self._names[inside[0]]}", memory[begin:end], offsets)
            self._buckets.append(bucket)
            self._bucket_of.update(dict.fromkeys(inside, bucket))
            begin = end
