"""Sums one number per rank; what the package's tests run on two ranks. `--mpi`: MPI serves them."""

import array
import sys

import horovod.array as hvd

hvd.init()
summed = hvd.allreduce(array.array("f", [hvd.rank() + 1.0]), op=hvd.Sum)
expected = hvd.size() * (hvd.size() + 1) / 2
if hvd.size() != 2 or list(summed) != [expected]:
    raise SystemExit(f"rank {hvd.rank()} of {hvd.size()}: {list(summed)}, not {expected}")
if "--mpi" in sys.argv and not hvd.mpi_enabled():
    raise SystemExit(f"rank {hvd.rank()} of {hvd.size()}: not started through MPI")
