"""Joins through MPI again and again, as all ranks and as halves of them, and says what came of it.

Usage: mpi_places.py [mpi4py | lists | refused]; communicators of mpi4py or lists of ranks are the
job too, or all but rank 1, which is refused, ends.
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


def refusal_of(communicator: object) -> str:
    try:
        BASICS.init(comm=communicator)
    except ValueError as error:
        return str(error)
    return ""


def main(*words: str) -> None:
    jobs = []
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
    if words == ("refused",):
        try:
            jobs = [describe([0, 2])]
        except ValueError as error:
            jobs = [{"rank": -1, "refused": str(error)}]
        sys.stdout.write(json.dumps(jobs) + "\n")
        return
    if words == ("lists",):
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
        between = half.Create_intercomm(0, world, 2 - world.rank // 2 * 2)
        assert "intercommunicator" in refusal_of(between)
        assert "null communicator" in refusal_of(MPI.COMM_NULL)
        world.Barrier()
    jobs += [describe(), describe()]
    sys.stdout.write(json.dumps(jobs) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
