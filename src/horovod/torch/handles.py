"""Waiting for operations on torch tensors, and starting several."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from horovod._collectives import COLLECTIVES
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.started import STARTED


def poll(handle: int) -> bool:
    """Whether an operation is done, so that `synchronize` returns at once."""
    return STARTED.poll(handle)


def result_of(handle: int) -> torch.Tensor:
    """Waits for an operation whose result is one tensor."""
    result: torch.Tensor = synchronize(handle)
    return result


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result; None for a handle that is not known.

    Raises:
        HorovodInternalError: the operation failed on all ranks, or a rank was lost.
    """
    return STARTED.synchronize(handle)


def _under_way() -> int:
    return STARTED.newest.under_way() + COLLECTIVES.under_way()


def start_unmet(kind: str, name: str | None, start: Callable[[str | None], int]) -> int:
    """Starts the ordinary way what a blocking call is about for which the ranks have not met.

    Whatever raises before the core has accepted it, which a signal's handler may do anywhere, takes
    the number back that the call has in place of a name: the next call, by which the caller makes
    it again, has to go with those of the other ranks.

    Args:
        kind: of `_bindings.KINDS`.
        name: that the blocking call has handed back.
        start: starts it under that name, and does not wait for it. A blocking call gives a
            `partial`: for a function of its own it would make cells whenever it is called.

    Returns:
        Its handle.
    """
    before: int | None = None
    try:
        before = _under_way()
        return start(name)
    except BaseException:
        # Where it has been accepted, nobody has its handle to wait for it.
        if before is None or _under_way() <= before:
            COLLECTIVES.take_back(kind, name)
        raise


def start_all(starts: Iterable[Callable[[], int]]) -> list[int]:
    """Starts one operation after the other.

    Args:
        starts: each starts one and returns its handle.

    Returns:
        Their handles.

    Raises:
        Exception: what one of them raises. Those before it have been waited for: none is left that
            writes into tensors, or whose name the caller's next try would find in use.
    """
    handles: list[int] = []
    try:
        handles.extend(start() for start in starts)  # those before an error are kept
    except Exception:
        for handle in handles:
            with contextlib.suppress(HorovodInternalError):
                synchronize(handle)
        raise
    return handles


def wait_for_all(handles: Sequence[int], arrived: dict[int, Any] | None = None) -> list[Any]:
    """Waits for several operations.

    Args:
        handles: theirs.
        arrived: results by their handles, also where a signal's handler ends the wait: then the
            next call, which gets them too, waits for the others alone.

    Returns:
        Their results.

    Raises:
        HorovodInternalError: one has failed, the first such; all have been waited for nevertheless.
    """
    results = {} if arrived is None else arrived
    failure: HorovodInternalError | None = None
    for handle in handles:
        if handle in results:
            continue
        try:
            results[handle] = synchronize(handle)
        except HorovodInternalError as error:
            failure = failure or error
    if failure is not None:
        try:
            raise failure
        finally:
            # Its traceback holds this frame, and with that the results of the others.
            del failure
    return [results[handle] for handle in handles]
