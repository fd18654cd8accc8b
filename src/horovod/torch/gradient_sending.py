"""Sends gradients that are complete, alone or with others of their group."""

import functools
from collections.abc import Sequence

import torch

from horovod.torch.changed_gradients import version_of
from horovod.torch.compression import Outgoing, converts_later, outgoing
from horovod.torch.gradient_memory import Memory
from horovod.torch.gradient_reduction import Reduction
from horovod.torch.gradients_in_flight import Gradient, GradientGroup, InFlight
from horovod.torch.grouped import start_grouped_allreduce
from horovod.torch.missing_gradients import no_rows_for, zeros_for
from horovod.torch.operands import repeats_elements
from horovod.torch.reduction import start_allreduce
from horovod.torch.sparse import sparse_allreduce_async

Parameter = torch.Tensor

_PATIENCE = 1.0  # seconds, in a backward pass, for what another optimizer has sent


class GradientSender:
    """Starts the operations that reduce gradients.

    Args:
        reduction: how.
        sent: to which it adds what it sends, in this order.
    """

    def __init__(self, reduction: Reduction, sent: list[Gradient]) -> None:
        self._reduction = reduction
        self._sent = sent
        self._sparse_dimensions: dict[Parameter, int] = {}

    def send(self, gradient: Gradient) -> None:
        """Sends a gradient by itself."""
        if (sent := self._outgoing(gradient)) is None:
            return
        handle = start_allreduce(
            sent.tensor,
            gradient.name,
            *self._reduction.how,
            in_place=sent.in_place,
            wire_dtype=sent.wire_dtype,
        )
        self._note(gradient, InFlight(handle, sent))

    def send_group(self, members: Sequence[Gradient]) -> None:
        """Sends gradients together that are of one type and device; sparse ones go alone."""
        kinds: dict[tuple[str, torch.device], list[tuple[Gradient, Outgoing]]] = {}
        for member in members:
            if (sent := self._outgoing(member)) is not None:
                kind = sent.travels_as, sent.tensor.device
                kinds.setdefault(kind, []).append((member, sent))
        for together in kinds.values():
            self._send_together(together)

    def _send_together(self, together: Sequence[tuple[Gradient, Outgoing]]) -> None:
        group = GradientGroup()
        for position, (member, sent) in enumerate(together):
            self._note(member, InFlight(functools.partial(group.result, position), sent, group))
        group.handle = start_grouped_allreduce(
            [sent.tensor for _, sent in together],
            f"group.{together[0][0].name}",
            *self._reduction.how,
            in_place=all(sent.in_place for _, sent in together),
            wire_dtypes=[sent.wire_dtype for _, sent in together],
        )

    def _send_sparse(self, gradient: Gradient, sparse: torch.Tensor) -> None:
        op, process_set = self._reduction.op, self._reduction.process_set
        finish = sparse_allreduce_async(sparse, gradient.name, op, process_set)
        self._note(gradient, InFlight(finish, Outgoing(sparse, None)))

    def _note(self, gradient: Gradient, flight: InFlight) -> None:
        gradient.flight = flight
        flight.own = own = gradient.parameter.grad
        if own is not None and gradient.memory is Memory.OWN:
            flight.version = version_of(own)
        self._sent.append(gradient)

    def _ready(self, parameter: Parameter) -> torch.Tensor:
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

    def _nothing(self, parameter: Parameter) -> torch.Tensor:
        """An empty gradient of the kind that the parameter has had on this rank."""
        dimensions = self._sparse_dimensions.get(parameter)
        return zeros_for(parameter) if dimensions is None else no_rows_for(parameter, dimensions)

    def _outgoing(self, gradient: Gradient) -> Outgoing | None:
        """What is to be sent of a complete gradient; a sparse one is sent here, and gives None.

        Where the sum that another optimizer has sent goes to the gradient itself, a copy might come
        before that on one rank, and after it on another: so the core has the sum of this optimizer
        follow on all ranks. Where the other has sent a copy, the gradient is this rank's until it
        lands.
        """
        ready = self._ready(gradient.parameter)
        if ready.layout is not torch.strided:
            self._send_sparse(gradient, ready)
            return None
        repeats = repeats_elements(ready)  # as a script may expand one
        if repeats:
            gradient.memory = Memory.LENT
        compression, op = self._reduction.compression, self._reduction.op
        other = gradient.flight_elsewhere()
        if other is not None and other.sent.tensor is ready and not repeats:
            if not converts_later(ready, compression, op):
                other.wait(_PATIENCE)
            sent = outgoing(ready, compression, op)
            return sent._replace(in_place=sent.tensor is not ready)
        if other is not None or gradient.memory in (Memory.LENT, Memory.UNKNOWN):
            ready = ready.detach().clone()
        return outgoing(ready, compression, op)
