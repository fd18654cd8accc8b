"""Reduces tensors of unlike sizes asynchronously, many times; says whether it was right."""
# ruff: noqa: T201 - the test reads what is printed

import numpy as np

import horovod.array as hvd

hvd.init()
right = True
for step in range(60):
    tensors = [np.full(number * 97 + 1, hvd.rank() + step, np.float32) for number in range(8)]
    handles = [
        hvd.allreduce_async_(tensor, name=f"t{number}", op=hvd.Sum)
        for number, tensor in enumerate(tensors)
    ]
    for handle in handles:
        hvd.synchronize(handle)
    expected = sum(range(hvd.size())) + hvd.size() * step
    right = right and all((tensor == expected).all() for tensor in tensors)
print("right" if right else "wrong")
