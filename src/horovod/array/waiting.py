"""Waiting: for operations on their way, and for the other ranks."""

from typing import Any

from horovod._collectives import COLLECTIVES
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id


def join() -> int:
    """Takes part with zeros in the others' allreduces until all ranks have joined.

    Returns:
        The last rank that joined.
    """
    return COLLECTIVES.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks of a process set have come here."""
    COLLECTIVES.barrier(registered_id(process_set))


def poll(handle: int) -> bool:
    """Whether an operation is done, so that `synchronize` returns at once."""
    return COLLECTIVES.poll(handle)


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result; None for a handle that is not known.

    Raises:
        HorovodInternalError: the operation failed on all ranks, or a rank was lost.
    """
    return COLLECTIVES.synchronize(handle)
