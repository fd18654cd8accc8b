"""Says how many blocks malloc maps anew for a large one, before and after an optimizer is wrapped.

Its argument is the op that the optimizer reduces with.
"""

import ctypes
import sys

import torch

import horovod.torch as hvd


class Mallinfo2(ctypes.Structure):
    """As in <malloc.h>: `arena` is the size of the heap, `hblks` counts mapped blocks."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def allocate_and_free(nbytes: int) -> str:
    """Returns how many blocks were mapped for it, and how many bytes the heap lost in the end."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo2
    libc.malloc.restype = ctypes.c_void_p
    before = libc.mallinfo2()
    block = libc.malloc(ctypes.c_size_t(nbytes))
    held = libc.mallinfo2()
    libc.free(ctypes.c_void_p(block))
    return f"{held.hblks - before.hblks} {max(0, held.arena - libc.mallinfo2().arena)}"


hvd.init()
model = torch.nn.Linear(2, 2)
first = allocate_and_free(16 << 20)
hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1),
    named_parameters=model.named_parameters(),
    op=getattr(hvd, sys.argv[1]),
)
# Larger than the first, which alone would have malloc expect more of its size.
sys.stdout.write(f"{first} {allocate_and_free(24 << 20)}\n")
