"""Each rank waits for the other in a function with gradients, which PyTorch calls for us."""
# ruff: noqa: T201 - the test reads what is printed

import signal

import torch

import horovod.torch as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
hvd.init()
values = torch.ones(1000, requires_grad=True)
try:
    if hvd.rank() == 0:
        hvd.allreduce(values, name="missed")  # alone
    else:
        hvd.grouped_allreduce([values, values], name="another")  # together
except hvd.HorovodInternalError as error:
    print(f"failed: {error}")
