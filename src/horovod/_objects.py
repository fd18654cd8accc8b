"""Python objects through collectives: pickled, their length first, then the bytes."""

import pickle
from typing import Any

from horovod._collectives import COLLECTIVES
from horovod._loader import _bindings
from horovod._operations import Operand
from horovod._pickling import dump
from horovod._session import SESSION
from horovod.common.exceptions import HorovodInternalError

_UNPICKLABLE = -1  # sent in place of a length, so that the other ranks do not wait for ever


def _operand(buffer: "_bindings.Buffer") -> Operand:
    return Operand(buffer.address, tuple(buffer.shape), buffer.dtype, buffer)


def _filled(data: bytes) -> "_bindings.Buffer":
    buffer = _bindings.allocate((len(data),), "uint8")
    if data:
        memoryview(buffer)[:] = data
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
        HorovodInternalError: the root could not pickle it (there the pickler's error is raised).
    """
    if SESSION.member.placement.rank == root_rank:
        payload: bytes | None = None
        try:
            payload = dump(obj)
        finally:
            length = _UNPICKLABLE if payload is None else len(payload)
            _broadcast(_number(length), root_rank, _part(name, "length"), process_set)
        _broadcast(_filled(payload), root_rank, _part(name, "bytes"), process_set)
        return obj
    length = _broadcast(_number(0), root_rank, _part(name, "length"), process_set)[0]
    if length == _UNPICKLABLE:
        raise HorovodInternalError(f"rank {root_rank} could not pickle the object to broadcast")
    received = _broadcast(
        _bindings.allocate((length,), "uint8"), root_rank, _part(name, "bytes"), process_set
    )
    return pickle.loads(received)  # noqa: S301 - the ranks of a job authenticate each other


def allgather_object(obj: Any, name: str | None, process_set: int = 0) -> list[Any]:
    """Collects one object of every rank of a process set.

    Returns:
        All ranks' objects, by rank.

    Raises:
        HorovodInternalError: a rank could not pickle its object (there, the pickler's own error).
    """
    payload: bytes | None = None
    lengths: list[int] = []
    try:
        payload = dump(obj)
    finally:
        length = _UNPICKLABLE if payload is None else len(payload)
        lengths = _allgather(_number(length), _part(name, "length"), process_set).tolist()
    if _UNPICKLABLE in lengths:
        raise HorovodInternalError(
            f"rank {lengths.index(_UNPICKLABLE)} could not pickle the object to gather"
        )
    gathered = _allgather(_filled(payload), _part(name, "bytes"), process_set)
    objects = []
    start = 0
    for length in lengths:
        objects.append(pickle.loads(gathered[start : start + length]))  # noqa: S301 - as above
        start += length
    return objects
