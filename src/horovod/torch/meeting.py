"""Barrier and join: the ranks meet, or one is not waited for any more."""

from horovod._collectives import COLLECTIVES
from horovod.common.process_sets import ProcessSet, global_process_set, registered_id
from horovod.torch.blocking import CALLS


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks of a process set have come here."""
    if process_set is global_process_set:
        met = CALLS.now.barrier()
        if isinstance(met, str):
            return COLLECTIVES.barrier(name=met)
        if met is not None:
            return None
    return COLLECTIVES.barrier(registered_id(process_set))


def join(device: int = -1) -> int:
    """Takes part with zeros in the others' allreduces until all ranks have joined.

    Args:
        device: the number of this rank's GPU, -1 for none. Needed where the others' tensors lie on
            GPUs and this rank has had none there itself; else without effect.

    Returns:
        The last rank that joined, the same on all ranks.
    """
    return COLLECTIVES.join(device)
