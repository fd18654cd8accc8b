"""How fast the kernels of an installed GPU wheel move memory, against PyTorch's copy in one run.

    python bench/gpu_kernels.py

NVIDIA alone. A kernel is started by the driver's own call, in blocks as device/kernels.cc divides
the work; GB/s count what is read and what is written, and are medians.
"""

from __future__ import annotations

import ctypes
import statistics
import struct
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import torch

from horovod._gpu import CODE_FOLDER
from turns.gradient_sets import resnet50

PIECES = 128  # of a launch
THREADS = 256
MANY_BLOCKS, TURNS_TOGETHER, MOST_BLOCKS = 1024, 4, 8192
NBYTES = 256 << 20


class Piece(NamedTuple):
    """Addresses, and how many elements lie there."""

    source: int
    destination: int
    elements: int


class Kernels:
    """The machine code for the GPU at hand."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        major, minor = torch.cuda.get_device_capability()
        code = (CODE_FOLDER / f"kernels.sm_{major}{minor}.cubin").read_bytes()
        self._module = ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), code))

    def _check(self, result: int) -> None:
        if result:
            raise RuntimeError(f"the driver's error {result}")

    def function(self, name: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        words = (ctypes.byref(found), self._module, name.encode())
        self._check(self._driver.cuModuleGetFunction(*words))
        return found

    def prepared(
        self,
        function: ctypes.c_void_p,
        pieces: Sequence[Piece],
        elements_per_thread: int,
        factors: Sequence[float] = (),
    ) -> Callable[[], None]:
        """What enqueues a kernel on PyTorch's stream, once for as many pieces as it takes."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launches = []
        for start in range(0, len(pieces), PIECES):
            batch = pieces[start : start + PIECES]
            total, turn = sum(piece.elements for piece in batch), THREADS * elements_per_thread
            share = min(max(-(-total // MANY_BLOCKS), turn), TURNS_TOGETHER * turn)
            share = max(share, -(-total // MOST_BLOCKS))
            first = [0]
            for piece in batch:
                first.append(first[-1] + -(-piece.elements // share))
            first += [first[-1]] * (PIECES - len(batch))
            packed = b"".join(struct.pack("QQQ", *piece) for piece in batch)
            packed = packed.ljust(24 * PIECES, b"\0") + struct.pack(f"{PIECES + 1}I4x", *first)
            values = (ctypes.create_string_buffer(packed), *map(ctypes.c_double, factors))
            places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            launches.append((first[-1], places, values))

        def launch() -> None:
            for blocks, places, _ in launches:
                grid = (blocks, 1, 1, THREADS, 1, 1, 0)
                self._check(self._driver.cuLaunchKernel(function, *grid, stream, places, None))

        return launch


def seconds(call: Callable[[], object], rounds: int = 9, together: int = 10) -> float:
    """What the GPU takes for a call, while the host is ahead of it."""
    ahead = torch.ones(4096, 4096, device="cuda")
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        for _ in range(4):
            ahead @ ahead
        begin.record()
        for _ in range(together):
            call()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)) / 1e3 / together)
    return statistics.median(times[2:])


def say(label: str, nbytes: int, ours: float, peer: float | None = None) -> None:
    ratio = "" if peer is None else f"   {ours / peer:5.2f} of PyTorch's time"
    print(f"{label:36} {nbytes / ours / 1e9:6.0f} GB/s{ratio}")


def main() -> int:
    if not torch.cuda.is_available() or torch.version.cuda is None:
        print("there is no GPU of NVIDIA, or PyTorch has no code for it", file=sys.stderr)
        return 1
    # The first tensor makes the context that the driver's calls need.
    source = torch.empty(NBYTES + 64, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    kernels = Kernels()
    peer = seconds(lambda: target.copy_(source))
    say("PyTorch's copy, 256 MiB", 2 * NBYTES, peer)
    copy = kernels.function("hvd_copy")
    for offset in (0, 8, 4, 2, 1):
        piece = Piece(source.data_ptr() + offset, target.data_ptr(), NBYTES)
        ours = seconds(kernels.prepared(copy, [piece], 16))
        say(f"copy from a multiple of 16 + {offset}", 2 * NBYTES, ours, peer)
    for name, read, written in (
        ("hvd_scale_float32", 4, 4),
        ("hvd_scale_float16", 2, 2),
        ("hvd_scale_int32", 4, 4),
        ("hvd_float16_from_float32", 4, 2),
        ("hvd_float32_from_bfloat16", 2, 4),
    ):
        function, wider = kernels.function(name), max(read, written)
        piece = Piece(source.data_ptr(), target.data_ptr(), NBYTES // wider)
        ours = seconds(kernels.prepared(function, [piece], 16 // wider, (0.5, 1.0)))
        say(name, piece.elements * (read + written), ours)
    tensors = [torch.ones(prod(shape), device="cuda") for shape in resnet50()]
    total = sum(tensor.nbytes for tensor in tensors)
    places, place = [], target.data_ptr()
    for tensor in tensors:
        places.append(place)
        place += -(-tensor.nbytes // 16) * 16
    pairs = list(zip(tensors, places, strict=True))
    packed = [Piece(tensor.data_ptr(), place, tensor.nbytes) for tensor, place in pairs]
    unpacked = [Piece(place, tensor.data_ptr(), tensor.numel()) for tensor, place in pairs]
    scale = kernels.function("hvd_scale_float32")
    peer = seconds(lambda: torch.cat(tensors))
    ours = seconds(kernels.prepared(copy, packed, 16))
    say("ResNet-50's gradients packed", 2 * total, ours, peer)
    ours = seconds(kernels.prepared(scale, unpacked, 4, (1.0, 2.0)))
    say("unpacked and averaged", 2 * total, ours, peer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
