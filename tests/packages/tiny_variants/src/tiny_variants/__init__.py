"""Sums floats with the library for the highest level that both the wheel and the CPU have."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

_NATIVE = Path(__file__).parent / "_native"


def _open() -> ctypes.CDLL:
    # All of x86-64-v3's features came with AVX2, but for a few CPUs that this toy does not meet.
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    best = _NATIVE / "x86_64_v3" / "libtiny.so"
    if best.is_file() and {"avx2", "fma", "bmi2"} <= set(flags):
        try:
            return ctypes.CDLL(str(best))
        except OSError:
            pass  # an emulated CPU, which the kernel does not describe: the file's note is right
    return ctypes.CDLL(str(_NATIVE / "baseline" / "libtiny.so"))


_library = _open()
_library.tiny_level.restype = ctypes.c_char_p
_library.tiny_total.restype = ctypes.c_double


def level() -> str:
    """The CPU level of the opened library."""
    name: bytes = _library.tiny_level()
    return name.decode()


def total(values: Sequence[float]) -> float:
    """The sum of some floats."""
    array = (ctypes.c_float * len(values))(*values)
    return float(_library.tiny_total(array, ctypes.c_long(len(values))))
