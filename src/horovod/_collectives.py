"""Collectives without a framework: names, argument rules, and what a handle keeps alive."""

import itertools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

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
_KINDS: Mapping[str, int] = _bindings.KINDS

CPU = -1  # as a device
WaitResult = tuple["list[_bindings.Buffer]", list[int]]


class Operand(NamedTuple):
    """Memory that a collective reads or writes: contiguous, of a known type.

    Attributes:
        address: of the first element.
        owner: what must stay alive while the memory is in use.
        device: -1 for the CPU's memory, else the number of the GPU.
        stream: address of the GPU's stream on which the memory becomes ready.
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    owner: object
    device: int = CPU
    stream: int = 0


class Pending(NamedTuple):
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
    """Starts operations on a session's runtime and waits for them.

    What all the methods that start an operation have in common:

    Args:
        finish: makes the result that `synchronize` returns from what the core hands over (below).
        name: the same on all ranks; None to number the operation, apart for each kind and process
            set: then all ranks must start their unnamed ones in the same order.
        process_set: number of a registered process set (`ProcessSet.process_set_id`); 0 is all
            ranks.

    Returns:
        A handle for `poll` and `synchronize`.

    Raises:
        ValueError: a bad type, root or splits; a name in flight; a process set that is unknown or
            does not hold this rank.
        HorovodInternalError: the job has failed or ended.

    Sources are read, and destinations written, until the operation is done; a destination may be
    its source. `finish` gets

    * None for allreduce, broadcast and barrier, whose results lie in the destinations,
    * a `Buffer` for allgather and reducescatter, a list of them for their grouped forms,
    * a `Buffer` and the list of rows received from each rank for alltoall.
    """

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
        process_set: int = 0,
    ) -> int:
        """Starts a reduction over all ranks of a process set.

        Args:
            source: what this rank contributes.
            destination: where the result goes; may be the source.
            finish: called with None.
            name: see the class.
            op: a reduction, checked by `choose_op`.
            prescale: multiplies every rank's contribution.
            postscale: multiplies the result.
            process_set: see the class.
        """
        if source.device != CPU:
            return self._start(
                "allreduce",
                name,
                (source,),
                finish,
                destinations=(destination,),
                process_set=process_set,
                op=op,
                prescale=prescale,
                postscale=postscale,
            )
        member = self._ready_member()
        dtype = _code(source.dtype)
        ticket = self._enqueue(
            member,
            "allreduce",
            name,
            process_set,
            lambda full_name: member.runtime.allreduce(
                full_name,
                source.address,
                destination.address,
                source.shape,
                dtype,
                op,
                prescale,
                postscale,
                process_set,
            ),
        )
        return self._keep(member, ticket, (source, destination), finish)

    def grouped_allreduce(
        self,
        sources: Sequence[Operand],
        destinations: Sequence[Operand],
        finish: Callable[[Any], Any],
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: int = 0,
    ) -> int:
        """Starts reducing several tensors, which run together once all ranks have asked for all.

        The group has one name, one handle, and the same tensors in the same order on all ranks.
        """
        return self._start(
            "allreduce",
            name,
            sources,
            finish,
            destinations=destinations,
            process_set=process_set,
            grouped=True,
            op=op,
            prescale=prescale,
            postscale=postscale,
        )

    def allgather(
        self,
        source: Operand,
        finish: "Callable[[_bindings.Buffer], Any]",
        *,
        name: str | None,
        process_set: int = 0,
    ) -> int:
        """Starts joining all ranks' tensors along the first dimension, in which they may differ."""
        return self._start(
            "allgather", name, (source,), lambda got: finish(got[0][0]), process_set=process_set
        )

    def grouped_allgather(
        self,
        sources: Sequence[Operand],
        finish: "Callable[[list[_bindings.Buffer]], Any]",
        *,
        name: str | None,
        process_set: int = 0,
    ) -> int:
        """Starts several allgathers, which run together once all ranks have asked for all."""
        return self._start(
            "allgather",
            name,
            sources,
            lambda got: finish(got[0] if got else []),
            process_set=process_set,
            grouped=True,
        )

    def broadcast(
        self,
        source: Operand,
        destination: Operand,
        finish: Callable[[Any], Any],
        *,
        root: int,
        name: str | None,
        process_set: int = 0,
    ) -> int:
        """Starts sending one rank's tensor to all; the source counts on the root alone.

        Args:
            source: of the root; its shape and type count on all ranks.
            destination: where the root's tensor goes; may be the source.
            finish: called with None.
            root: a global rank, whatever the process set.
            name: see the class.
            process_set: see the class.
        """
        return self._start(
            "broadcast",
            name,
            (source,),
            finish,
            destinations=(destination,),
            process_set=process_set,
            root=root,
        )

    def alltoall(
        self,
        source: Operand,
        finish: "Callable[[_bindings.Buffer, list[int]], Any]",
        *,
        splits: Sequence[int] | None,
        name: str | None,
        process_set: int = 0,
    ) -> int:
        """Starts sending parts of this rank's tensor to all ranks, and receiving theirs.

        Args:
            source: cut along its first dimension.
            finish: called with the parts that this rank gets, joined along the first dimension in
                the order of the ranks, and with the number of rows that came from each.
            splits: how many rows go to each rank of the process set; their sum may be smaller than
                the first dimension. None for even parts.
            name: see the class.
            process_set: see the class.
        """
        return self._start(
            "alltoall",
            name,
            (source,),
            lambda got: finish(got[0][0], got[1]),
            process_set=process_set,
            numbers=() if splits is None else splits,
        )

    def reducescatter(
        self,
        source: Operand,
        finish: "Callable[[_bindings.Buffer], Any]",
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: int = 0,
    ) -> int:
        """Starts a reduction of which each rank gets a part along the first dimension.

        The parts are even, but for the first ranks, which get one row more each when the first
        dimension is no multiple of the number of ranks.
        """
        return self._start(
            "reducescatter",
            name,
            (source,),
            lambda got: finish(got[0][0]),
            process_set=process_set,
            op=op,
            prescale=prescale,
            postscale=postscale,
        )

    def grouped_reducescatter(
        self,
        sources: Sequence[Operand],
        finish: "Callable[[list[_bindings.Buffer]], Any]",
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: int = 0,
    ) -> int:
        """Starts several reducescatters, which run together once all ranks have asked for all."""
        return self._start(
            "reducescatter",
            name,
            sources,
            lambda got: finish(got[0] if got else []),
            process_set=process_set,
            grouped=True,
            op=op,
            prescale=prescale,
            postscale=postscale,
        )

    def barrier(self, process_set: int = 0, *, name: str | None = None) -> None:
        """Waits until all ranks of a process set have come here."""
        self.synchronize(self._start("barrier", name, (), lambda _: None, process_set=process_set))

    def join(self) -> int:
        """Takes part with zeros in the others' allreduces until all ranks have joined.

        Returns:
            The last rank that joined, the same on all ranks.

        Raises:
            ValueError: another thread of this rank has joined.
        """
        last: int = self.synchronize(self._start("join", "", (), lambda got: got[1][0]))
        return last

    def add_process_sets(self, sets: Sequence[Sequence[int]]) -> list[int]:
        """Registers process sets; all ranks of the job call it with the same ones.

        Args:
            sets: global ranks of each, ascending.

        Returns:
            Their numbers.

        Raises:
            HorovodInternalError: the ranks named different ones, or there is such a set already.
        """
        numbers = [number for ranks in sets for number in (len(ranks), *ranks)]
        handle = self._start("add_process_sets", None, (), lambda got: got, numbers=numbers)
        result = self.synchronize(handle)
        return list(result[1]) if result else []

    def remove_process_set(self, process_set: int) -> None:
        """Unregisters a process set; all ranks of the job call it. What it has pending fails."""
        self.synchronize(
            self._start("remove_process_set", None, (), lambda _: None, numbers=(process_set,))
        )

    def run_now(
        self,
        kind: str,
        name: str | None,
        source: int,
        destination: int,
        shape: Sequence[int],
        dtype: int,
        *,
        op: int = Sum,
        prescale: float = 1.0,
        postscale: float = 1.0,
        root: int = -1,
    ) -> "tuple[WaitResult | Literal[False] | None, str]":
        """Runs an operation of all ranks on this thread if they all come for it now.

        For callers that would wait for it at once, with contiguous tensors alone.

        Args:
            kind: of `_bindings.KINDS`.
            name: see the class.
            source: address of what this rank contributes; the caller keeps it alive.
            destination: address of where the result goes, 0 for kinds that allocate it.
            shape: of the tensor.
            dtype: code of its type, of `DTYPES`.
            op: a reduction, checked by `choose_op`.
            prescale: multiplies every rank's contribution.
            postscale: multiplies the result.
            root: global rank whose tensor is broadcast.

        Returns:
            What the core hands over (see the class), or False when the operation has to be started
            the ordinary way; and the name to start it with.
        """
        member = self._session.member
        full_name = self._full_name(member, kind, name, 0)
        try:
            result = member.runtime.run_now(
                _KINDS[kind],
                full_name,
                source,
                destination,
                shape,
                dtype,
                op,
                prescale,
                postscale,
                root,
            )
        except _bindings.CollectiveError as error:
            raise HorovodInternalError(str(error)) from error
        except (TypeError, ValueError):
            self._take_back(member, kind, full_name, 0)
            raise
        return result, full_name[len(kind) + 1 :]

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

    def _full_name(self, member: Member, kind: str, name: str | None, process_set: int) -> str:
        if name is not None:
            return f"{kind}.{name}"
        with self._lock:
            number = member.unnamed.get((kind, process_set), 0)
            member.unnamed[kind, process_set] = number + 1
        return f"{kind}.noname.{number}"

    def _take_back(self, member: Member, kind: str, full_name: str, process_set: int) -> None:
        """Frees the number of an operation that was refused, if no other has come after it."""
        with self._lock:
            number = member.unnamed.get((kind, process_set), 0) - 1
            if full_name == f"{kind}.noname.{number}":
                member.unnamed[kind, process_set] = number

    def _enqueue(
        self,
        member: Member,
        kind: str,
        name: str | None,
        process_set: int,
        start: Callable[[str], int],
    ) -> int:
        full_name = self._full_name(member, kind, name, process_set)
        try:
            return start(full_name)
        except _bindings.CollectiveError as error:
            raise HorovodInternalError(str(error)) from error
        except (TypeError, ValueError):
            self._take_back(member, kind, full_name, process_set)
            raise

    def _start(
        self,
        kind: str,
        name: str | None,
        sources: Sequence[Operand],
        finish: Callable[[Any], Any],
        *,
        destinations: Sequence[Operand] = (),
        process_set: int = 0,
        **options: Any,
    ) -> int:
        member = self._ready_member()
        if sources:
            options |= {"device": _device(sources), "stream": sources[0].stream}
        tensors = [
            (
                source.address,
                destinations[index].address if destinations else 0,
                source.shape,
                _code(source.dtype),
            )
            for index, source in enumerate(sources)
        ]
        ticket = self._enqueue(
            member,
            kind,
            name,
            process_set,
            lambda full_name: member.runtime.enqueue(
                _bindings.KINDS[kind], full_name, tensors, process_set=process_set, **options
            ),
        )
        return self._keep(member, ticket, (*sources, *destinations), finish)

    def _keep(
        self,
        member: Member,
        ticket: int,
        operands: tuple[Operand, ...],
        finish: Callable[[Any], Any],
    ) -> int:
        # Handles of a job that has failed are often never asked for; they would keep it alive.
        oldest = next(iter(self._pending.values()), None)
        if oldest is not None and oldest.member is not member:
            for old in [h for h, kept in self._pending.items() if kept.member is not member]:
                self._pending.pop(old, None)
        handle = next(self._handles)
        self._pending[handle] = Pending(member, ticket, operands, finish)
        return handle


def _device(operands: Sequence[Operand]) -> int:
    device = operands[0].device
    if any(operand.device != device for operand in operands):
        raise ValueError("the tensors of a group must be on one device")
    return device


def _code(dtype: str) -> int:
    code = DTYPES.get(dtype)
    if code is None:
        raise ValueError(f"Tensor type {dtype} is not supported.")
    return code


COLLECTIVES = Collectives(SESSION)
