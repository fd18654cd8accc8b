"""A variable of rank 1 alone is not accepted: its name and value are the arguments."""

import os
import sys

if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    name, value = sys.argv[1:]
    os.environ[name] = value

import horovod.array as hvd

hvd.init()
