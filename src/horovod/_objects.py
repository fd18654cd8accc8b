"""Python objects through collectives: pickled, their length first, then the bytes.

Pickles can run anything, and what passes between hosts may be changed there by whoever controls the
network. So a proof that a rank has written it follows each, HMAC-SHA256 with the job's secret; but
not inside a host, nor where MPI has brought the ranks together, which have no secret then.
"""

import hmac
import pickle
from typing import Any

from horovod._collectives import COLLECTIVES
from horovod._loader import _bindings
from horovod._operations import Operand
from horovod._pickling import dump
from horovod._session import SESSION
from horovod.common.exceptions import HorovodInternalError

_UNPICKLABLE = -1  # sent in place of a length, so that the other ranks do not wait for ever
_PROOF_BYTES = 32


def _operand(buffer: "_bindings.Buffer") -> Operand:
    return Operand(buffer.address, tuple(buffer.shape), buffer.dtype, buffer)


def _secret() -> bytes:
    placement = SESSION.member.placement
    return placement.secret if placement.local_size < placement.size else b""


def _proof(secret: bytes, way: str, pickled: "bytes | memoryview") -> bytes:
    """What follows a pickle.

    Args:
        secret: of a job whose ranks are on several hosts; else it is empty, and so is the proof.
        way: by which the object is sent.
        pickled: the object.
    """
    if not secret:
        return b""
    proof = hmac.new(secret, way.encode(), "sha256")
    proof.update(pickled)
    return proof.digest()


def _proved(way: str, pickled: bytes) -> tuple[bytes, bytes]:
    return pickled, _proof(_secret(), way, pickled)


def _load(way: str, received: memoryview, sender: str) -> Any:
    """The object that a rank has sent.

    Raises:
        HorovodInternalError: no rank has sent this.
    """
    secret = _secret()
    end = len(received) - (_PROOF_BYTES if secret else 0)
    pickled = received[: max(end, 0)]
    if not hmac.compare_digest(_proof(secret, way, pickled), bytes(received[len(pickled) :])):
        raise HorovodInternalError(
            f"the object of {sender} has been changed on its way between the hosts: its proof does"
            " not fit, and it is not unpickled"
        )
    return pickle.loads(pickled)  # noqa: S301 - a rank of this job has pickled it


def _filled(parts: tuple[bytes, bytes]) -> "_bindings.Buffer":
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
    """
    if SESSION.member.placement.rank == root_rank:
        payload: tuple[bytes, bytes] | None = None
        try:
            payload = _proved("broadcast", dump(obj))
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
    return _load("broadcast", received, f"rank {root_rank}")


def allgather_object(obj: Any, name: str | None, process_set: int = 0) -> list[Any]:
    """Collects one object of every rank of a process set.

    Returns:
        All ranks' objects, by rank.

    Raises:
        HorovodInternalError: a rank could not pickle its object (there, the pickler's own error);
            or one has been changed on its way.
    """
    payload: tuple[bytes, bytes] | None = None
    lengths: list[int] = []
    try:
        payload = _proved("allgather", dump(obj))
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
        sender = f"rank {number}{' of the process set' if process_set else ''}"
        objects.append(_load("allgather", gathered[start : start + length], sender))
        start += length
    return objects
