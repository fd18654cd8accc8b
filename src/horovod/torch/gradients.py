"""Reduces gradients while the backward pass still runs."""

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from horovod.common.exceptions import HorovodInternalError
from horovod.torch.changed_gradients import ChangedGradients, version_of
from horovod.torch.gradient_hooks import GradientHook, remove
from horovod.torch.gradient_memory import Memory, memory_of, prepare_counts
from horovod.torch.gradient_places import (
    look_at_group,
    look_at_places,
    put_in_place,
    sharing_memory,
)
from horovod.torch.gradient_reduction import TOO_MANY_PASSES, Reduction
from horovod.torch.gradient_sending import GradientSender
from horovod.torch.gradients_in_flight import Gradient
from horovod.torch.handles import synchronize
from horovod.torch.missing_gradients import forget_zeros
from horovod.torch.parameter_names import numbered
from horovod.torch.participation import Participation

Parameter = torch.Tensor

# Autograd has a thread for each device: of those of a group, one is the last and sends it.
_COMPLETING = threading.RLock()  # a handler of a signal may run another backward pass within


class GradientReducer:
    """Starts a gradient's reduction when it is complete, and waits for all of them.

    Parameters live longer than their optimizers: their hooks do not keep the reducer alive, and go
    with it, so that the next optimizer of the same model has the gradients for itself.

    Args:
        names: of the parameters.
        reduction: how.
        passes: number of backward passes that add up locally before a reduction.
        groups: parameters whose gradients are sent together, once all of them are complete.

    Attributes:
        reduction: see above.
        group_of: those that travel with a parameter, by its id.
    """

    def __init__(
        self,
        names: dict[Parameter, str],
        reduction: Reduction,
        passes: int,
        groups: Sequence[Sequence[Parameter]] = (),
    ) -> None:
        self._names = names
        self.reduction = reduction
        self.passes = passes
        self.group_of = {id(parameter): group for group in groups for parameter in group}
        self._gradients: dict[int, Gradient] = {}  # by the parameters' ids
        self._sent: list[Gradient] = []  # that are on their way, in this order
        self._sender = GradientSender(reduction, self._sent)
        self._settled = False  # whether all of a step has landed, and is being forgotten
        self._failure: HorovodInternalError | None = None  # of the step that lands
        self._sharing: set[int] | None = None  # whose gradients share memory, where looked for
        self._changed = ChangedGradients()
        self._required: set[Parameter] = set()
        self._users_choice = False
        self._participation = Participation(reduction.process_set)
        self._hooks: dict[int, GradientHook] = {}  # as above
        self._handles: list[Any] = []
        prepare_counts()
        weakref.finalize(self, remove, self._handles).atexit = False

    @property
    def busy(self) -> bool:
        """Whether gradients are on their way, or have been counted for a later reduction."""
        if self._sent or self._settled:
            return True
        return any(gradient.seen for gradient in self._gradients.values())

    @property
    def sending(self) -> bool:
        """Whether gradients are on their way, or would be if others of their group were there."""
        return bool(self._sent) or any(each.complete for each in self._gradients.values())

    def watch(self, groups: Sequence[dict[str, Any]]) -> list[Gradient]:
        """Follows the gradients of all parameters that need one and are not followed yet.

        Returns:
            Those that it follows from now on.
        """
        added: list[Gradient] = []
        for i, group in enumerate(groups):
            for j, parameter in enumerate(group["params"]):
                if id(parameter) in self._gradients or not parameter.requires_grad:
                    continue
                name = self._names.setdefault(parameter, numbered(i, j))
                gradient = Gradient(parameter, name, self.group_of.get(id(parameter)))
                self._gradients[id(parameter)] = gradient
                if not self._users_choice:
                    self._required.add(parameter)
                hook = GradientHook(parameter, self, gradient, self._handles)
                self._hooks[id(parameter)] = hook
                added.append(gradient)
        return added

    @property
    def required(self) -> set[Parameter]:
        """Parameters of which every step sends a gradient, of zeros where there is none.

        May be changed, or replaced, so that those that no rank uses stay without a gradient.
        """
        return self._required

    @required.setter
    def required(self, parameters: Iterable[Parameter]) -> None:
        self._required = parameters if isinstance(parameters, set) else set(parameters)
        self._users_choice = True

    def passes_of(self, parameter: Parameter) -> int:
        """How many backward passes have added to a parameter's gradient since the last step."""
        gradient = self._gradients.get(id(parameter))
        return 0 if gradient is None else gradient.seen

    def under_way(self) -> Mapping[Parameter, tuple[Any, Any]]:
        """Of gradients that are not reduced yet the handle and the compressor's context, or None.

        They are None of those that have been counted, and not sent.
        """
        return {
            each.parameter: (each.flight.handle, each.flight.sent.context)
            if each.flight is not None
            else (None, None)
            for each in self._gradients.values()
            if each.flight is not None or each.seen
        }

    def count(self, gradient: Gradient, arrived: torch.Tensor | None = None) -> None:
        """Notes that a backward pass has added to a gradient; sends it after the last pass.

        Raises:
            AssertionError: it has been sent already, with Horovod's text.
        """
        if not self._participation.here():
            return
        seen = gradient.seen + 1
        if gradient.flight is not None or seen > self.passes:
            raise AssertionError(TOO_MANY_PASSES)
        gradient.seen = seen
        self._look_at_memory(gradient, arrived)
        if seen == self.passes:
            self._finish(gradient)

    def _look_at_memory(self, gradient: Gradient, arrived: torch.Tensor | None = None) -> None:
        own = gradient.parameter.grad
        memory = Memory.OWN if own is None else memory_of(own, arrived)
        # Others that have had it since an earlier pass of this step have it still.
        if gradient.memory is not Memory.LENT or memory is Memory.OWN:
            gradient.memory = memory

    def _look_at_unseen(self, gradient: Gradient, groups: Sequence[dict[str, Any]]) -> None:
        """Likewise where no hook has seen what has been made its gradient since.

        The same tensor, for example, may have been made another parameter's gradient too.
        """
        self._look_at_memory(gradient)
        own = gradient.parameter.grad
        if own is None or own.layout is not torch.strided:
            return
        if self._sharing is None:  # looked for once in a step
            parameters = {key: each.parameter for key, each in self._gradients.items()}
            parameters.update((id(one), one) for group in groups for one in group["params"])
            self._sharing = sharing_memory(parameters.values())
        if id(gradient.parameter) in self._sharing:
            gradient.memory = Memory.LENT

    def _finish(self, gradient: Gradient) -> None:
        """Sends a gradient that is complete, or its group when it was the last of it."""
        if gradient.group is None:
            self._sender.send(gradient)
            return
        gradient.own = gradient.parameter.grad
        if gradient.parameter.is_cuda:
            gradient.stream = torch.cuda.current_stream(gradient.parameter.device)
        members = self._members(gradient)
        with _COMPLETING:
            gradient.complete = True
            last = all(member.complete or member.flight is not None for member in members)
            if last:
                for member in members:
                    member.complete = False
        if last:  # those that are on their way were sent before the rest could not be
            self._send_group([member for member in members if member.flight is None])

    def _members(self, gradient: Gradient) -> list[Gradient]:
        """The gradients of a gradient's group."""
        found = (self._gradients.get(id(member)) for member in gradient.group or ())
        return [member for member in found if member is not None]

    def _send_group(self, members: Sequence[Gradient]) -> None:
        for member in members:
            member.complete = False
            waited, member.own = member.own, None
            replaced = member.parameter.grad is not None and member.parameter.grad is not waited
            if replaced and member.memory is not Memory.LENT:
                member.memory = Memory.UNKNOWN
            # Autograd runs hooks on the streams of the forward pass; the group is sent on one.
            stream, member.stream = member.stream, None
            if stream is not None:
                torch.cuda.current_stream(member.parameter.device).wait_stream(stream)
        look_at_group(members)
        self._sender.send_group(members)

    def synchronize(self, groups: Sequence[dict[str, Any]]) -> None:
        """Waits until all parameters have their reduced gradients; other ranks keep their own."""
        if self._settled or not self._participation.here():
            self.drain()
            return
        self._take_back()
        self._sharing = None
        if self.group_of:  # what waits for others of its group may have been replaced since
            for waiting in self._gradients.values():
                if waiting.complete:
                    self._look_at_unseen(waiting, groups)
        for group in groups:
            for parameter in group["params"]:
                gradient = self._gradients.get(id(parameter))
                if gradient is None or gradient.flight is not None or gradient.complete:
                    continue
                if gradient.seen:
                    self._hooks[id(parameter)].use()
                elif not self._unseen(parameter) and parameter not in self._required:
                    continue
                if gradient.seen < self.passes:
                    self._look_at_unseen(gradient, groups)
                self._finish(gradient)
        if self.group_of:
            self._send_incomplete_groups(groups)
        self._send_unfrozen(groups)
        self._look_for_changes()
        self.drain()

    def _take_back(self) -> None:
        """Has gradients wait for their group again that were noted, and not sent.

        A signal's handler may have raised between any two steps of noting them.
        """
        noted = [each for each in self._gradients.values() if each.flight is not None]
        for gradient in noted:
            if gradient.flight is not None and not gradient.flight.started:
                gradient.complete, gradient.own = True, gradient.flight.own
                gradient.flight = None
        if len(noted) != len(self._sent) or any(each.flight is None for each in self._sent):
            self._sent[:] = [each for each in noted if each.flight is not None]

    def _look_for_changes(self) -> None:
        """Looks at what is on its way before any of it lands, which changes it too."""
        for gradient in self._sent:
            flight = gradient.flight
            if flight is None or flight.landed or (own := flight.own) is None:
                continue
            version, flight.version = flight.version, None
            if gradient.parameter.grad is not own:  # the script has put something in its place
                gradient.memory = Memory.UNKNOWN
            elif version is not None and version_of(own) != version:
                self._changed.warn(gradient.name)

    def _unseen(self, parameter: Parameter) -> bool:
        """Whether no hook has seen the backward passes that have added to a gradient."""
        return parameter.grad is not None and self._hooks[id(parameter)].renew()

    def _send_unfrozen(self, groups: Sequence[dict[str, Any]]) -> None:
        """Sends the gradients of parameters that were frozen when they were last looked at.

        No hook has seen the backward passes that have added to them. They travel alone this once:
        some ranks have sent the group without them already, and others have not.
        """
        for gradient in self.watch(groups):
            needed = gradient.parameter.grad is not None or gradient.parameter in self._required
            if not needed:
                continue
            self._look_at_unseen(gradient, groups)
            self._sender.send(gradient)

    def _send_incomplete_groups(self, groups: Sequence[dict[str, Any]]) -> None:
        """Sends what still waits for others of its group.

        Of parameters that have left the optimizer zeros travel with it, as in Horovod, and without
        those that need not be sent in each step.
        """
        for gradient in self._gradients.values():
            if not gradient.complete:
                continue
            members = self._members(gradient)
            for member in members:
                gone = not member.complete and member.flight is None
                if gone and member.parameter in self._required:
                    self._look_at_unseen(member, groups)
                    self._finish(member)
            if waiting := [member for member in members if member.complete]:
                self._send_group(waiting)

    def drain(self) -> None:
        """Waits for what is on its way, starts nothing, and forgets what has been counted.

        What else is raised meanwhile (by a signal's handler, a compressor) leaves all as it is: the
        next call goes on where this one has come to.

        Raises:
            HorovodInternalError: a reduction failed; the others have been waited for nevertheless.
        """
        look_at_places(self._sent, self._gradients.values())
        for gradient in self._sent:
            try:
                self._land(gradient)
            except HorovodInternalError as error:  # noqa: PERF203 - each of them may fail
                self._failure = self._failure or error
        self._settled = True
        self._sent.clear()
        for gradient in self._gradients.values():
            gradient.seen = 0
            gradient.complete = False
            gradient.own = gradient.flight = None
            gradient.memory = Memory.OWN
        failure, self._failure, self._settled = self._failure, None, False
        if failure is not None:
            try:
                raise failure
            finally:
                # Its traceback holds this frame, and with that what else the job had.
                del failure

    def _land(self, gradient: Gradient) -> None:
        flight, parameter = gradient.flight, gradient.parameter
        if flight is None or flight.landed or not flight.started:
            return  # before Ctrl-C ended the wait for a later one, or as the group was to be sent
        handle = flight.handle
        if flight.arrived is None:
            flight.arrived = synchronize(handle) if isinstance(handle, int) else handle()
        if flight.arrived is None:
            raise HorovodInternalError(
                f"the result of {gradient.name!r} is lost: the job in which it was sent has ended,"
                " or a signal's handler raised as it arrived"
            )
        put_in_place(gradient, flight.arrived, flight.sent, self.reduction.compression)
        if not parameter.requires_grad:  # any more
            forget_zeros(parameter)
        flight.arrived, flight.own, flight.landed = None, None, True
