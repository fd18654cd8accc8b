"""GPU code embedded in a file, whatever holds it: cubins, fat binaries, PTX, HIP code objects.

The file is searched for the formats' magic numbers, because build systems put device code into
sections, byte arrays and files of all kinds. Sources: `llvm/BinaryFormat/ELF.h` and LLVM's
"User Guide for AMDGPU Backend" for the ELF flags, Clang's "Clang Offload Bundler" for bundles; the
fat binary's headers, which NVIDIA does not document, as nvcc 11.8 to 13.0 write them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from variantwheel.device_targets import AMD_MACH
from variantwheel_selector.providers.amd_targets import property_value

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_ELF_HEADER_SIZE = 64
_EM_CUDA, _EM_AMDGPU = 190, 224
# The operating system byte of cubins since CUDA 13, in which the flags moved.
_CUDA_ABI_2 = 65
_FAT_BINARY = struct.pack("<I", 0xBA55ED50)
_FAT_PTX, _FAT_ELF = 1, 2
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_BUNDLE = re.compile(rb"CCOB[\x01-\x03]\x00[\x00\x01]\x00")
_BUNDLE_TARGET = re.compile(r"hip(?:v4)?-amdgcn-amd-amdhsa-(?:unknown)?-(gfx[0-9a-z:+-]+)")
_PTX = re.compile(rb"\.version\s+\d+\.\d+\s+\.target\s+sm_(\d+[af]?)\b")
_MOST_ENTRIES = 1024
# EF_AMDGPU_FEATURE_*_V4; the other values say that the code runs under either setting.
_XNACK = {0x200: "_xnack_off", 0x300: "_xnack_on"}
_SRAMECC = {0x800: "_sramecc_off", 0xC00: "_sramecc_on"}


@dataclass(frozen=True, order=True)
class DeviceCode:
    """Code for one GPU architecture.

    Attributes:
        namespace: `nvidia` or `amd`.
        architecture: As variant properties spell it, `90_real`, `90_virtual` or `gfx90a`; empty
            if it cannot be told.
        form: What holds it, in words.
    """

    namespace: str
    architecture: str
    form: str


def is_device_object(data: bytes) -> bool:
    """Whether a file is an ELF object for a GPU, which no dynamic loader of a CPU takes."""
    if not data.startswith(_ELF64_LITTLE) or len(data) < _ELF_HEADER_SIZE:
        return False
    return struct.unpack_from("<H", data, 18)[0] in (_EM_CUDA, _EM_AMDGPU)


def find_device_code(data: bytes) -> list[DeviceCode]:
    """Find all device code in a file.

    Args:
        data: The file's bytes.

    Returns:
        What was found, sorted, without duplicates; code inside of code counts once.
    """
    found = {
        *_elf_files(data),
        *_fat_binaries(data),
        *_bundles(data),
        *(
            DeviceCode("nvidia", f"{match[1].decode()}_virtual", "PTX")
            for match in _PTX.finditer(data)
        ),
        *(DeviceCode("amd", "", "a compressed bundle") for _ in _COMPRESSED_BUNDLE.finditer(data)),
    }
    return sorted(found)


def _elf_files(data: bytes) -> Iterator[DeviceCode]:
    for start in _occurrences(data, _ELF64_LITTLE):
        header = data[start : start + _ELF_HEADER_SIZE]
        if len(header) < _ELF_HEADER_SIZE:
            continue
        (machine,) = struct.unpack_from("<H", header, 18)
        (flags,) = struct.unpack_from("<I", header, 48)
        if machine == _EM_CUDA:
            number = flags >> 8 & 0xFF if header[7] == _CUDA_ABI_2 else flags & 0xFF
            yield DeviceCode("nvidia", f"{number}_real", "machine code")
        elif machine == _EM_AMDGPU:
            target = AMD_MACH.get(flags & 0xFF, "")
            if target:
                target += _SRAMECC.get(flags & 0xC00, "") + _XNACK.get(flags & 0x300, "")
            yield DeviceCode("amd", target, "machine code" if target else f"mach {flags & 0xFF:#x}")


def _fat_binaries(data: bytes) -> Iterator[DeviceCode]:
    for start in _occurrences(data, _FAT_BINARY):
        if len(data) < start + 16:
            continue
        version, header_size, size = struct.unpack_from("<HHQ", data, start + 4)
        at, end = start + header_size, start + header_size + size
        if version != 1 or header_size != 16 or end > len(data):
            continue
        for _ in range(_MOST_ENTRIES):
            if at + 32 > end:
                break
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, at)
            (number,) = struct.unpack_from("<I", data, at + 28)
            if entry_header < 32 or not number:
                break
            if kind == _FAT_ELF:
                yield DeviceCode("nvidia", f"{number}_real", "machine code")
            elif kind == _FAT_PTX:
                yield DeviceCode("nvidia", f"{number}_virtual", "PTX")
            at += entry_header + entry_size


def _bundles(data: bytes) -> Iterator[DeviceCode]:
    for start in _occurrences(data, _BUNDLE):
        at = start + len(_BUNDLE)
        if len(data) < at + 8:
            continue
        (count,) = struct.unpack_from("<Q", data, at)
        at += 8
        for _ in range(min(count, _MOST_ENTRIES)):
            if len(data) < at + 24:
                break
            _, size, length = struct.unpack_from("<QQQ", data, at)
            name = data[at + 24 : at + 24 + min(length, 256)].decode("ascii", errors="replace")
            target = _BUNDLE_TARGET.match(name)
            if target and size:
                yield DeviceCode("amd", property_value(target[1]), "machine code")
            at += 24 + length


def _occurrences(data: bytes, magic: bytes) -> Iterator[int]:
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)
