"""Which workers surely have the state of the training: pure functions.

A worker gets it at the beginning of its first round; whether it has is not known until it asks for
its place in the next one.
"""

from collections.abc import Sequence

from horovod.runner.elastic.seating import Plan
from horovod.runner.elastic.worker import Worker


def alone_has_state(present: Sequence[Worker], host: str, latest: int) -> bool:
    """Whether workers elsewhere, if any, may still lack the state that a host's workers have.

    Args:
        present: workers that run and are not about to end.
        host: on which one of them has failed.
        latest: the number of the last round.
    """
    here = [worker.since for worker in present if worker.since and worker.host == host]
    there = [worker.since for worker in present if worker.since and worker.host != host]
    if not here:
        return False
    return not any(since < latest or since <= min(here) for since in there)


def find_reserves(present: Sequence[Worker], plan: Plan, latest: int) -> list[Worker]:
    """Workers that go, but have the state, while those who stay have had one round to get it.

    It may turn out, until all have come for the next round, that these have not got it.

    Args:
        present: workers that run and are not about to end.
        plan: of the next round.
        latest: the number of the last round.
    """
    oldest = min((seat.since for seat in plan.seats if seat.since), default=0)
    return [worker for worker in present if worker.since and worker.since < oldest == latest]
