"""Operations on their way: their names, what their handles keep alive, and waiting for them."""

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from horovod._call_site import call_site
from horovod._given_numbers import explained
from horovod._loader import _bindings
from horovod._operation_names import checked_name
from horovod._reduce_op import Sum
from horovod._session import Member, Session
from horovod._unnamed_operations import internal_error

DTYPES: Mapping[str, int] = _bindings.DTYPES
_KINDS: Mapping[str, int] = _bindings.KINDS

CPU = -1  # as a device
_UNNAMED = ".noname."  # between kind and number, as in the bindings
WaitResult = tuple["list[_bindings.Buffer]", list[int]]


class Operand(NamedTuple):
    """Memory that a collective reads or writes: contiguous, of a known type.

    Attributes:
        address: of the first element.
        owner: what must stay alive while the memory is in use.
        device: -1 for the CPU's memory, else the number of the GPU.
        stream: address of the GPU's stream on which the memory becomes ready.
        wire_dtype: the type in which an allreduce sends it and reduces it, where that is another:
            "float16" or "bfloat16" for "float32" and "float64".
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    owner: object
    device: int = CPU
    stream: int = 0
    wire_dtype: str | None = None


_NO_TENSOR = Operand(0, (), next(iter(DTYPES)), None)  # of a barrier


class Pending(NamedTuple):
    """An operation on its way.

    Attributes:
        tickets: the runtime's own handle, once it has taken the operation.
        operands: kept alive until the operation is done.
        finish: makes the caller's result from what the runtime returns.
    """

    member: Member
    tickets: list[int]
    operands: tuple[Operand, ...]
    finish: Callable[[Any], Any]


class Operations:
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
        TypeError: a root or a factor is no number.
        ValueError: a bad type, root or splits; a name in flight; a process set that is unknown or
            does not hold this rank.
        HorovodInternalError: the job has failed or ended.

    Sources are read, and destinations written, until the operation is done; a destination may be
    its source. `finish` gets

    * None for allreduce, broadcast and barrier, whose results lie in the destinations,
    * a `Buffer` for allgather and reducescatter, a list of them for their grouped forms,
    * a `Buffer` and the list of rows received from each rank for alltoall,
    * None in place of a `Buffer` where the result lies in the caller's output.

    With `waits`, the caller waits for the handle at once: then all ranks of the job may run the
    operation right here, on their callers' threads, and the handle is of one that is done.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        # Others count the odd ones (torch/started.py). None is 0: scripts ask whether there is one.
        self._handles = itertools.count(2, step=2)
        self._pending: dict[int, Pending] = {}
        self._finished: dict[int, Any] = {}  # results of what callers wait for at once
        # Whose operations come in now.
        self._newest: Callable[[], Member | None] = lambda: None

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
        numbers: Sequence[int] = (),
        rows: int = 0,
        wire_dtype: int | None = None,
    ) -> "tuple[WaitResult | Literal[False] | None, str]":
        """Runs an operation of all ranks on this thread if they all come for it now.

        For callers that would wait for it at once, with contiguous tensors alone.

        Args:
            kind: of `_bindings.KINDS`.
            name: None to number the operation, as the class says.
            source: address of what this rank contributes; the caller keeps it alive.
            destination: address of where the result goes, 0 where the core allocates it.
            shape: of the tensor.
            dtype: code of its type, of `DTYPES`.
            op: a reduction, checked by `choose_op`.
            prescale: multiplies every rank's contribution.
            postscale: multiplies the result.
            root: global rank whose tensor is broadcast.
            numbers: of an alltoall, the rows for each rank; none for even ones.
            rows: at the destination, where the ranks agree on those of the result.
            wire_dtype: of an allreduce, code of the type that it travels in, as of `Operand`; None
                for its own.

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
                dtype if wire_dtype is None else wire_dtype,
                op,
                prescale,
                postscale,
                root,
                numbers,
                rows,
            )
        except _bindings.CollectiveError as error:
            raise internal_error(str(error)) from error
        except (TypeError, ValueError) as error:
            self._take_back(member, kind, full_name, 0)
            raise explained(error, {"prescale": prescale, "postscale": postscale}) from None
        if isinstance(result, BaseException):  # the operation has not begun
            self._take_back(member, kind, full_name, 0)
            raise result
        return result, full_name[len(kind) + 1 :]

    def new_output(self, shape: Sequence[int], dtype: str) -> "_bindings.Buffer":
        """Memory of the CPU for a result, of which that of large ones is used again.

        Args:
            shape: of the result; its memory is contiguous.
            dtype: name of its type, of `DTYPES`.

        Raises:
            HorovodInternalError: there is no more.
            RuntimeError: this is a fork of the process that called `init()`.
            ValueError: the type is unknown; `init()` has not been called.
        """
        try:
            return self._ready_member().runtime.new_output(shape, dtype_code(dtype))
        except _bindings.CollectiveError as error:
            raise internal_error(str(error)) from error

    def under_way(self) -> int:
        """How many operations nobody has waited for."""
        return len(self._pending)

    def take_back(self, kind: str, name: str | None) -> None:
        """Frees the number that `run_now` has made a name of, of a call that does not go on."""
        self._take_back(self._session.member, kind, f"{kind}.{name}", 0)

    def poll(self, handle: int) -> bool:
        """Whether an operation is done, or has failed, so that `synchronize` returns at once.

        Raises:
            ValueError: the handle is unknown, or has been synchronised.
        """
        pending = self._pending.get(handle)
        if pending is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        pending.member.require_own_process()
        return pending.member.runtime.poll(*pending.tickets)

    def synchronize(self, handle: int) -> Any:
        """Waits for an operation.

        Returns:
            Its result; None for a handle that is unknown or has been synchronised, as in Horovod.

        Raises:
            HorovodInternalError: the operation failed on all ranks, or a rank was lost.
        """
        if handle in self._finished:
            return self._finished.pop(handle)
        pending = self._pending.get(handle)
        if pending is None:
            return None
        pending.member.require_own_process()
        done = False
        try:
            # In time for rank 0 to say it when it names the ranks that do not come.
            site_after = pending.member.placement.stall_warning / 2
            result = pending.member.runtime.wait(pending.tickets[0], call_site, site_after)
            done = True
        except _bindings.WaitError as error:  # the operation may go on
            raise internal_error(str(error)) from error
        except _bindings.CollectiveError as error:
            done = True
            raise internal_error(str(error)) from error
        except ValueError:  # another thread has waited for it at the same time
            done = True
            return None
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
        if name is not None and name != "":  # an empty one is none, as in Horovod
            return f"{kind}.{checked_name(name)}"
        number = member.runtime.next_unnamed(_KINDS[kind], process_set)
        return f"{kind}{_UNNAMED}{number}"

    def _take_back(self, member: Member, kind: str, full_name: str, process_set: int) -> None:
        """Frees the number of an operation that was refused, if no other has come after it."""
        number = full_name.removeprefix(f"{kind}{_UNNAMED}")
        if number != full_name and number.isdecimal():
            member.runtime.take_back_unnamed(_KINDS[kind], process_set, int(number))

    def _enqueue(
        self, pending: Pending, kind: str, name: str, tensors: list[Any], options: dict[str, Any]
    ) -> None:
        runtime = pending.member.runtime
        try:
            runtime.enqueue(_KINDS[kind], name, tensors, pending.tickets, **options)
        except _bindings.CollectiveError as error:
            raise internal_error(str(error)) from error
        except (TypeError, ValueError) as error:
            raise explained(error, options) from None

    def _start(
        self,
        kind: str,
        name: str | None,
        sources: Sequence[Operand],
        finish: Callable[[Any], Any],
        *,
        destinations: Sequence[Operand] = (),
        process_set: int = 0,
        waits: bool = False,
        **options: Any,
    ) -> int:
        if waits and process_set == 0 and len(sources) < 2:
            handle, name = self._try_now(kind, name, sources, finish, destinations, options)
            if handle is not None:
                return handle
        member = self._ready_member()
        pending = Pending(member, [], (*sources, *destinations), finish)
        full_name = f"{kind}.{name}"  # with the number of a call for which the ranks have not met
        handle = 0
        try:
            if sources:
                options |= {"device": _device(sources), "stream": sources[0].stream}
            tensors = [
                (
                    source.address,
                    destinations[index].address if destinations else 0,
                    source.shape,
                    dtype_code(source.dtype),
                    dtype_code(source.wire_dtype or source.dtype),
                    next(iter(destinations[index].shape), 0) if destinations else 0,
                )
                for index, source in enumerate(sources)
            ]
            # Kept before it is on its way: a signal's handler may raise as soon as it is.
            handle = self._keep(pending)
            full_name = self._full_name(member, kind, name, process_set)
            options |= {"process_set": process_set}
            self._enqueue(pending, kind, full_name, tensors, options)
        finally:
            if not pending.tickets:
                self._pending.pop(handle, None)
                self._take_back(member, kind, full_name, process_set)
        return handle

    def _try_now(
        self,
        kind: str,
        name: str | None,
        sources: Sequence[Operand],
        finish: Callable[[Any], Any],
        destinations: Sequence[Operand],
        options: Mapping[str, Any],
    ) -> tuple[int | None, str | None]:
        """Runs an operation on this thread if it can be, and all ranks come for it now.

        Returns:
            Its handle, or None; and the name to start it with.
        """
        source = sources[0] if sources else _NO_TENSOR
        if source.device != CPU:
            return None, name
        destination = destinations[0] if destinations else _NO_TENSOR
        done, name = self.run_now(
            kind,
            name,
            source.address,
            destination.address,
            source.shape,
            dtype_code(source.dtype),
            rows=next(iter(destination.shape), 0),
            wire_dtype=None if source.wire_dtype is None else dtype_code(source.wire_dtype),
            **options,
        )
        if done is False:
            return None, name
        handle = next(self._handles)
        self._finished[handle] = finish(done)
        return handle, name

    def _keep(self, pending: Pending) -> int:
        if self._newest() is not pending.member:
            self._forget_earlier(pending.member)
        handle = next(self._handles)
        self._pending[handle] = pending
        return handle

    def _forget_earlier(self, member: Member) -> None:
        """Forgets the handles of jobs before the one before a member's, unless that has ended too.

        Those of a job that has failed are often never asked for; they would keep it alive.
        """
        pending = self._pending.copy()  # at once, and before anything of a later job can be in it
        if self._session.current is not member:
            return
        before = self._newest()
        self._newest = weakref.ref(member)
        for handle, kept in pending.items():
            if kept.member is not member and kept.member is not before:
                self._pending.pop(handle, None)


def _device(operands: Sequence[Operand]) -> int:
    device = operands[0].device
    if any(operand.device != device for operand in operands):
        raise ValueError("the tensors of a group must be on one device")
    return device


def buffer_of(got: WaitResult | None) -> "_bindings.Buffer | None":
    """The memory of a result of one tensor; None where the result lies in the caller's."""
    return got[0][0] if got and got[0] else None


def dtype_code(dtype: str) -> int:
    """The core's number of an element type.

    Raises:
        ValueError: it has none.
    """
    code = DTYPES.get(dtype)
    if code is None:
        raise ValueError(f"Tensor type {dtype} is not supported.")
    return code
