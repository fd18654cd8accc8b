"""Joins through MPI again and again, as all ranks and as halves of them, and says what came of it.

Usage: mpi_places.py [mpi4py | lists]; communicators of mpi4py or lists of ranks are the job too.
"""

import array
import contextlib
import json
import os
import sys

import horovod.array as hvd
from horovod._session import SESSION
from horovod.common.basics import HorovodBasics

BASICS = HorovodBasics()


def describe(communicator: object = None) -> dict[str, object]:
    BASICS.init(comm=communicator)
    total = hvd.allreduce(array.array("f", [hvd.rank() + 1.0] * 300_000), op=hvd.Sum)
    facts = {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "local": [hvd.local_rank(), hvd.local_size()],
        "sum": [total[0], total[-1]],
        "transport": SESSION.member.runtime.transport,
        "mpi": [BASICS.mpi_enabled(), BASICS.mpi_threads_supported(), BASICS.gloo_enabled()],
    }
    BASICS.shutdown()
    return facts


def main(*words: str) -> None:
    jobs = []
    if words == ("lists",):
        rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
        ranks = [2, 0] if rank in (0, 2) else [1, 3]
        jobs = [describe(ranks), describe(ranks)]
        with contextlib.suppress(ValueError):
            BASICS.init(comm=[(rank + 1) % 4])
            raise AssertionError(f"rank {rank} was taken into a job of another")
    elif words:
        from mpi4py import MPI  # noqa: PLC0415 - its MPI is then the one that is loaded

        world = MPI.COMM_WORLD
        half = world.Split(world.rank // 2, world.rank)
        jobs = [describe(world), describe(half)]
        world.Barrier()
    jobs += [describe(), describe()]
    sys.stdout.write(json.dumps(jobs) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
