"""Process sets from communicators of mpi4py, which each rank names its own of; says what came.

Usage: mpi_process_sets.py, by mpirun.
"""

import array
import json
import sys
import warnings

from mpi4py import MPI

import horovod.array as hvd
from horovod.common.basics import HorovodBasics
from horovod.common.process_sets import get_process_set_ids_and_ranks, global_process_set

BASICS = HorovodBasics()


def refused(*process_sets: hvd.ProcessSet) -> str:
    """How `init` refuses them, on all ranks alike; the job can be joined anew afterwards."""
    try:
        BASICS.init(comm=MPI.COMM_WORLD, process_sets=process_sets)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{process_sets} were accepted")


def left_out(*process_sets: hvd.ProcessSet) -> str:
    """What `init` says of the last one, and the sets of the job."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        BASICS.init(comm=MPI.COMM_WORLD, process_sets=process_sets)
    # Registered all the same is what was named once.
    BASICS.init(process_sets=[hvd.ProcessSet(process_sets[0].mpi_comm)])
    assert process_sets[-1].process_set_id is None
    (warning,) = said
    facts = f"{warning.message} {get_process_set_ids_and_ranks()}"
    MPI.COMM_WORLD.Barrier()
    BASICS.shutdown()
    return facts


def main() -> None:
    world = MPI.COMM_WORLD
    # The job's ranks are the world's in reverse.
    job = world.Split(0, -world.rank)
    half = world.Split(world.rank % 2, world.rank)
    own, first = hvd.ProcessSet(half), hvd.ProcessSet([0])
    facts: dict[str, object] = {
        "refused": [
            left_out(own, hvd.ProcessSet(half.Dup())),
            left_out(own, hvd.ProcessSet(world.Dup())),
            refused(hvd.ProcessSet(MPI.COMM_NULL)),
        ]
    }
    for _ in range(2):
        BASICS.init(comm=job, process_sets=[own, first])
        total = hvd.allreduce(array.array("f", [hvd.rank()]), op=hvd.Sum, process_set=own)
        facts |= {
            "rank": hvd.rank(),
            "sets": get_process_set_ids_and_ranks(),
            "own": [own.process_set_id, own.ranks, own.rank(), own.mpi_comm is half],
            "global": global_process_set.mpi_comm is job,
            "sum": total[0],
        }
        hvd.barrier()  # whoever leaves ends what the other half has not done yet
        BASICS.shutdown()
    sys.stdout.write(json.dumps([facts]) + "\n")


if __name__ == "__main__":
    main()
