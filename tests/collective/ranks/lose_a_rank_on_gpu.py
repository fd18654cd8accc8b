"""Rank 1 kills itself between operations on GPUs; the others say what they are told, and go on."""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal

import torch

import horovod.torch as hvd
from collective.ranks.gpu_of_rank import has_gpus, place

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the others; they finish first
hvd.init()
values = torch.ones(1 << 20, device=place())
for turn in range(1000):
    if hvd.rank() == 1 and turn == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        hvd.allreduce_(values, op=hvd.Max)
    except hvd.HorovodInternalError as error:
        print(f"failed: {error}")
        break
# What was reduced is the caller's again, and nothing is at work on it.
total = int((values * 2).sum())
hvd.shutdown()
print(f"{total} on {'a GPU' if has_gpus() else 'the CPU'}")
