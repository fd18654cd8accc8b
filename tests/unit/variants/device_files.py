"""GPU code as the compilers lay it out, with nothing but its headers.

The numbers are those of files that NVRTC 11.8 and nvcc 13.0 wrote, and of LLVM's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable


def _elf(machine: int, system: int, abi: int, flags: int) -> bytes:
    start = b"\x7fELF\x02\x01\x01" + bytes([system, abi]) + bytes(7)
    return start + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, 0, flags, 64, 56, 0, 64, 0, 0)


def cubin(number: int) -> bytes:
    """CUDA 11 and 12 repeat the architecture in three places of the flags."""
    return _elf(190, 51, 7, number << 16 | 0x500 | number)


def cubin_of_cuda_13(number: int) -> bytes:
    return _elf(190, 65, 8, 0x6000000 | number << 8 | 2)


def ptx(number: int | str) -> bytes:
    return f"//\n.version 7.8\n.target sm_{number}\n.address_size 64\n\0".encode()


def fat_binary(entries: Iterable[tuple[str, int]]) -> bytes:
    body = b""
    for kind, number in entries:
        code = b"compressed" * 4
        body += struct.pack(
            "<HHIQIIHHIIIQQQ",
            {"ptx": 1, "elf": 2}[kind], 257, 64, len(code),
            39, 64, 8, 1, number, 0, 0, 0x8011, 0, 0,
        )  # fmt: skip
        body += code
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def amd_code_object(mach: int) -> bytes:
    return _elf(224, 64, 3, 0x100 | mach)


def bundle(targets: Iterable[str]) -> bytes:
    names = ["host-x86_64-unknown-linux--", *targets]
    table = b"".join(
        struct.pack("<QQQ", 4096 * place, 64 if place else 0, len(name)) + name.encode()
        for place, name in enumerate(names)
    )
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + table
