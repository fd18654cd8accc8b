"""What `init()` refuses is caught: of rank 1 alone or of all ranks, which end with a status.

The arguments are "one" or "all", and that status.
"""

import os
import sys

if sys.argv[1] == "all" or "1" in (
    os.environ.get("PMI_RANK"),
    os.environ.get("OMPI_COMM_WORLD_RANK"),
):
    os.environ["HOROVOD_CYCLE_TIME"] = "fast"

import horovod.array as hvd

try:
    hvd.init()
except ValueError:
    sys.exit(int(sys.argv[2]))
