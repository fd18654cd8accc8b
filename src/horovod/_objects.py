"""Python objects through collectives: pickled, their length first, then the bytes.

Pickles can run anything, and what passes between hosts may be changed there by whoever controls the
network. So a proof that a rank has written it follows each, HMAC-SHA256 with the job's secret; not
where all ranks share memory, nor where MPI has brought them together, which have no secret then.
"""

import hmac
from dataclasses import dataclass
from typing import Any

from horovod._collectives import COLLECTIVES
from horovod._loader import _bindings
from horovod._operations import Operand
from horovod._pickling import dump
from horovod._session import SESSION
from horovod._unpickling import MARK, load
from horovod.common.exceptions import HorovodInternalError

_UNPICKLABLE = -1  # sent in place of a length, so that the other ranks do not wait for ever


def _operand(buffer: "_bindings.Buffer") -> Operand:
    return Operand(buffer.address, tuple(buffer.shape), buffer.dtype, buffer)


@dataclass(frozen=True)
class _Sending:
    """One rank's object on its way to others, of which all know this.

    Attributes:
        way: the operation.
        sender: the rank's number, among all for broadcasts and among its process set's else.
        process_set: the set's number.
        name: the user's, if there is one.
    """

    way: str
    sender: int
    process_set: int
    name: str | None

    def prove(self, pickled: bytes) -> tuple[bytes, ...]:
        """What is sent: the mark of this Python, the pickle, and the proof of both."""
        return MARK, pickled, self._proof(MARK, pickled)

    def load(self, received: memoryview) -> Any:
        """The object.

        Raises:
            HorovodInternalError: the rank has not sent this.
            UnpicklingError: the rank runs another Python, whose object cannot be loaded here.
        """
        end = len(received) - len(self._proof())
        marked = received[: max(end, 0)]
        of = " of the process set" if self.way == "allgather" and self.process_set else ""
        if not hmac.compare_digest(self._proof(marked), bytes(received[len(marked) :])):
            raise HorovodInternalError(
                f"the object of rank {self.sender}{of} has been changed on its way: its proof does"
                " not fit, and it is not unpickled"
            )
        return load(marked, f"rank {self.sender}{of}", "this rank")

    def _proof(self, *parts: "bytes | memoryview") -> bytes:
        member = SESSION.member
        secret = member.placement.secret
        if not secret or member.runtime.transport == "shm":  # on all ranks, or on none
            return b""
        what = (self.way, self.sender, self.process_set, self.name, member.generation)
        proof = hmac.new(secret, f"object {what!a}".encode(), "sha256")
        for part in parts:
            proof.update(part)
        return proof.digest()


def _filled(parts: tuple[bytes, ...]) -> "_bindings.Buffer":
    buffer = _bindings.allocate((sum(map(len, parts)),), "uint8")
    view, start = memoryview(buffer), 0
    for part in filter(None, parts):
        view[start : start + len(part)] = part
        start += len(part)
    return buffer


def _number(value: int) -> "_bindings.Buffer":
    buffer = _bindings.allocate((1,), "int64")
    memoryview(buffer)[0] = value
    return buffer


def _broadcast(
    buffer: "_bindings.Buffer", root_rank: int, name: str | None, process_set: int
) -> memoryview:
    operand = _operand(buffer)
    handle = COLLECTIVES.broadcast(
        operand,
        operand,
        lambda _: memoryview(buffer),
        root=root_rank,
        name=name,
        process_set=process_set,
    )
    view: memoryview = COLLECTIVES.synchronize(handle)
    return view


def _allgather(buffer: "_bindings.Buffer", name: str | None, process_set: int) -> memoryview:
    handle = COLLECTIVES.allgather(_operand(buffer), memoryview, name=name, process_set=process_set)
    view: memoryview = COLLECTIVES.synchronize(handle)
    return view


def _part(name: str | None, part: str) -> str | None:
    return None if name is None else f"{name}.{part}"


def broadcast_object(obj: Any, root_rank: int, name: str | None, process_set: int = 0) -> Any:
    """Sends one rank's object to all of a process set.

    Args:
        obj: counts on the root alone.
        root_rank: whose object it is, a global rank.
        name: of the two broadcasts, or None.
        process_set: its number.

    Returns:
        The root's object; on the root `obj` itself.

    Raises:
        HorovodInternalError: the root could not pickle it (there the pickler's error is raised), or
            it has been changed on its way.
        UnpicklingError: the root runs another Python, whose object cannot be loaded here.
    """
    sending = _Sending("broadcast", root_rank, process_set, name)
    if SESSION.member.placement.rank == root_rank:
        payload: tuple[bytes, ...] | None = None
        try:
            payload = sending.prove(dump(obj))
        finally:
            length = _UNPICKLABLE if payload is None else sum(map(len, payload))
            _broadcast(_number(length), root_rank, _part(name, "length"), process_set)
        _broadcast(_filled(payload), root_rank, _part(name, "bytes"), process_set)
        return obj
    length = _broadcast(_number(0), root_rank, _part(name, "length"), process_set)[0]
    if length == _UNPICKLABLE:
        raise HorovodInternalError(f"rank {root_rank} could not pickle the object to broadcast")
    received = _broadcast(
        _bindings.allocate((length,), "uint8"), root_rank, _part(name, "bytes"), process_set
    )
    return sending.load(received)


def allgather_object(obj: Any, name: str | None, process_set: int = 0) -> list[Any]:
    """Collects one object of every rank of a process set.

    Returns:
        All ranks' objects, by rank.

    Raises:
        HorovodInternalError: a rank could not pickle its object (there, the pickler's own error);
            or one has been changed on its way.
        UnpicklingError: one comes from another Python, and cannot be loaded here.
    """
    payload: tuple[bytes, ...] | None = None
    lengths: list[int] = []
    member = SESSION.member
    members = member.process_sets.get(process_set, [])
    rank = member.placement.rank
    own = members.index(rank) if rank in members else -1  # which the operation refuses
    try:
        payload = _Sending("allgather", own, process_set, name).prove(dump(obj))
    finally:
        length = _UNPICKLABLE if payload is None else sum(map(len, payload))
        lengths = _allgather(_number(length), _part(name, "length"), process_set).tolist()
    if _UNPICKLABLE in lengths:
        raise HorovodInternalError(
            f"rank {lengths.index(_UNPICKLABLE)} could not pickle the object to gather"
        )
    gathered = _allgather(_filled(payload), _part(name, "bytes"), process_set)
    objects = []
    start = 0
    for number, length in enumerate(lengths):
        sending = _Sending("allgather", number, process_set, name)
        objects.append(sending.load(gathered[start : start + length]))
        start += length
    return objects
