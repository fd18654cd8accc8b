"""Collectives without a framework: names, argument rules, and what a handle keeps alive."""

import itertools
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from horovod._loader import _bindings
from horovod._session import SESSION, Member, Session
from horovod.common.exceptions import HorovodInternalError

Average = _bindings.AVERAGE
Sum = _bindings.SUM
Adasum = _bindings.ADASUM
Min = _bindings.MIN
Max = _bindings.MAX
Product = _bindings.PRODUCT

DTYPES: Mapping[str, int] = _bindings.DTYPES


@dataclass(frozen=True)
class Operand:
    """Memory that a collective reads or writes: contiguous, of a known type.

    Attributes:
        address: of the first element.
        owner: what must stay alive while the memory is in use.
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    owner: object


@dataclass(frozen=True)
class Pending:
    """An operation on its way.

    Attributes:
        ticket: the runtime's own handle.
        operands: kept alive until the operation is done.
        finish: makes the caller's result from what the runtime returns.
    """

    member: Member
    ticket: int
    operands: tuple[Operand, ...]
    finish: Callable[[Any], Any]


def choose_op(op: int | None, *, average: bool | None) -> int:
    """Resolves Horovod's two ways of naming the reduction.

    Args:
        op: one of `Average`, `Sum`, `Min`, `Max`, `Product`, or None.
        average: the deprecated way: True for Average, False for Sum, or None.

    Raises:
        ValueError: both are given, or the op is unknown.
        NotImplementedError: for Adasum.
    """
    if average is not None:
        warnings.warn(
            "Parameter `average` has been replaced with `op` and will be removed in v1.0",
            DeprecationWarning,
            stacklevel=3,  # the line that calls the collective
        )
        if op is not None:
            raise ValueError(
                "The op parameter supersedes average. Please provide only one of them."
            )
        return Average if average else Sum
    if op is None:
        return Average
    if op == Adasum:
        raise NotImplementedError("op=Adasum is not supported yet by horovod-variants")
    if op not in (Average, Sum, Min, Max, Product):
        raise ValueError(
            f"op={op!r} is not a reduction; use one of Average, Sum, Min, Max, Product"
        )
    return op


class Collectives:
    """Starts operations on a session's runtime and waits for them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._handles = itertools.count()
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()

    def allreduce(
        self,
        source: Operand,
        destination: Operand,
        finish: Callable[[Any], Any],
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
    ) -> int:
        """Starts a reduction over all ranks.

        Args:
            source: what this rank contributes.
            destination: where the result goes; may be the source.
            finish: makes the result that `synchronize` returns.
            name: None to number it; then all ranks must start their unnamed ones in the same order.
            op: a reduction, checked by `choose_op`.
            prescale: multiplies every rank's contribution.
            postscale: multiplies the result.

        Returns:
            A handle for `poll` and `synchronize`.

        Raises:
            ValueError: a bad type, or the name is in flight already.
        """
        member = self._ready_member()
        ticket = _enqueue(
            member.runtime.allreduce,
            self._full_name(member, "allreduce", name),
            source.address,
            destination.address,
            source.shape,
            _code(source.dtype),
            op,
            prescale,
            postscale,
        )
        return self._keep(member, ticket, (source, destination), finish)

    def allgather(
        self,
        source: Operand,
        finish: "Callable[[_bindings.Buffer], Any]",
        *,
        name: str | None,
    ) -> int:
        """Starts joining all ranks' tensors along the first dimension, in which they may differ."""
        member = self._ready_member()
        ticket = _enqueue(
            member.runtime.allgather,
            self._full_name(member, "allgather", name),
            source.address,
            source.shape,
            _code(source.dtype),
        )
        return self._keep(member, ticket, (source,), finish)

    def broadcast(
        self,
        source: Operand,
        destination: Operand,
        finish: Callable[[Any], Any],
        *,
        root: int,
        name: str | None,
    ) -> int:
        """Starts sending one rank's tensor to all; the source counts on the root alone."""
        member = self._ready_member()
        ticket = _enqueue(
            member.runtime.broadcast,
            self._full_name(member, "broadcast", name),
            source.address,
            destination.address,
            source.shape,
            _code(source.dtype),
            root,
        )
        return self._keep(member, ticket, (source, destination), finish)

    def barrier(self) -> None:
        """Waits until all ranks have come here."""
        member = self._ready_member()
        ticket = _enqueue(member.runtime.barrier, self._full_name(member, "barrier", None))
        self.synchronize(self._keep(member, ticket, (), lambda _: None))

    def poll(self, handle: int) -> bool:
        """Whether an operation is done, or has failed, so that `synchronize` returns at once.

        Raises:
            ValueError: the handle is unknown, or has been synchronised.
        """
        pending = self._pending.get(handle)
        if pending is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        pending.member.require_own_process()
        return pending.member.runtime.poll(pending.ticket)

    def synchronize(self, handle: int) -> Any:
        """Waits for an operation.

        Returns:
            Its result; None for a handle that is unknown or has been synchronised, as in Horovod.

        Raises:
            HorovodInternalError: the operation failed on all ranks, or a rank was lost.
        """
        pending = self._pending.get(handle)
        if pending is None:
            return None
        pending.member.require_own_process()
        done = False
        try:
            result = pending.member.runtime.wait(pending.ticket)
            done = True
        except _bindings.CollectiveError as error:
            done = True
            raise HorovodInternalError(str(error)) from error
        finally:
            # Ctrl-C leaves the operation running, and its memory in use.
            if done:
                self._pending.pop(handle, None)
        return pending.finish(result)

    def _ready_member(self) -> Member:
        member = self._session.member
        member.require_own_process()
        return member

    def _full_name(self, member: Member, kind: str, name: str | None) -> str:
        if name is not None:
            return f"{kind}.{name}"
        with self._lock:
            number = member.unnamed.get(kind, 0)
            member.unnamed[kind] = number + 1
        return f"{kind}.noname.{number}"

    def _keep(
        self,
        member: Member,
        ticket: int,
        operands: tuple[Operand, ...],
        finish: Callable[[Any], Any],
    ) -> int:
        handle = next(self._handles)
        self._pending[handle] = Pending(member, ticket, operands, finish)
        return handle


def _code(dtype: str) -> int:
    code = DTYPES.get(dtype)
    if code is None:
        raise ValueError(f"Tensor type {dtype} is not supported.")
    return code


def _enqueue(start: Callable[..., int], *arguments: Any) -> int:
    try:
        return start(*arguments)
    except _bindings.CollectiveError as error:
        raise HorovodInternalError(str(error)) from error


COLLECTIVES = Collectives(SESSION)
