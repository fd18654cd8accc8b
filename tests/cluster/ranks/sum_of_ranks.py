"""Says where this rank is, and what the ranks' numbers come to."""

import array
import os
import sys

import horovod.array as hvd

hvd.init()
total = hvd.allreduce(array.array("f", [hvd.rank() + 1.0]), op=hvd.Sum)
node = os.environ.get("SLURMD_NODENAME", "")
sys.stdout.write(f"rank {hvd.rank()} of {hvd.size()} on {node}: {total[0]:g}\n")
hvd.shutdown()
