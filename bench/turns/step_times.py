"""A rank's program: times steps of models, on the threads that it was started with."""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch

import horovod.torch as hvd
from turns.cases import Case
from turns.horovod_calls import distribute
from turns.training import MODELS, training_step

STEPS = 15
WARM_UP = 3
RESULT = "RESULT "


def seconds_of(model: str) -> float:
    """The median of a model's steps."""
    call = training_step(Case("step", variant=model), distribute).call
    times = []
    for _ in range(WARM_UP + STEPS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times[WARM_UP:])


def main() -> None:
    hvd.init()
    told = {"threads": float(torch.get_num_threads()), **{m: seconds_of(m) for m in MODELS}}
    if hvd.rank() == 0:
        sys.stdout.write(f"{RESULT}{json.dumps(told)}\n")


if __name__ == "__main__":
    main()
