"""What the C library does with memory that gradients have left."""

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from horovod.torch.freed_memory import keep_freed_memory

BLOCK = 24 << 20  # above the thresholds with which a process begins


class _Mallinfo2(ctypes.Structure):
    """As in <malloc.h>: `arena` is the size of the heap, `hblks` counts mapped blocks."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _probe(*, keep: bool) -> tuple[int, int]:
    """Allocates and frees a block.

    Returns:
        How many blocks were mapped for it, and how many bytes the heap lost when it was freed.
    """
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo2
    libc.malloc.restype = ctypes.c_void_p
    if keep:
        keep_freed_memory()
    before = libc.mallinfo2()
    block = libc.malloc(ctypes.c_size_t(BLOCK))
    held = libc.mallinfo2()
    libc.free(ctypes.c_void_p(block))
    after = libc.mallinfo2()
    return held.hblks - before.hblks, max(0, held.arena - after.arena)


@pytest.mark.torch
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc")
@pytest.mark.parametrize(
    ("keep", "stated", "mapped"),
    [(False, {}, 1), (True, {}, 0), (True, {"MALLOC_TRIM_THRESHOLD_": "131072"}, 1)],
)
def test_freed_gradients_stay_in_the_heap(
    *, keep: bool, stated: dict[str, str], mapped: int
) -> None:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    script = f"import test_freed_memory as t; print(*t._probe(keep={keep}))"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=plain | stated | {"PYTHONPATH": str(Path(__file__).parent)},
    )
    assert ran.stdout.split() == [str(mapped), "0"]
