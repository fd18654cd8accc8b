r"""Compiles the GPU kernels for AMD: a code object per architecture, in one bundle that HIP loads.

    python cmake/compile_hip_code.py --source src/native/device/kernels.cu \
        --include src/native --out DIR gfx90a gfx942 gfx1100

The compiler is the clang inside of ziglang, from PyPI; neither ROCm nor a GPU is needed. With
`--rocm /opt/rocm` it is the hipcc of an installed ROCm.
Formats: LLVM, "User Guide for AMDGPU Backend"; Clang, "Clang Offload Bundler".
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_HOST = "host-x86_64-unknown-linux--"  # as of the oldest hipcc; newer ones write gnu into it
_TARGET = "hipv4-amdgcn-amd-amdhsa--"
_ALIGNMENT = 4096  # code objects are mapped from where they lie
_ARCHITECTURE = re.compile(r"gfx[1-9][0-9]?[0-9a-f]{2}")
# Version 4 of the code objects is what every HIP from ROCm 4.1 to 7 loads. The arithmetic has to be
# that of the CPU's kernels, so products and sums are not joined.
_OPTIONS = ("-std=c++17", "-O3", "-ffp-contract=off", "-mcode-object-version=4")
_DEADLINE = 600


class CompileError(Exception):
    """The device code cannot be compiled; the text says why."""


def find_zig() -> Path:
    """Return the program of the installed package ziglang.

    Raises:
        CompileError: It is not installed in the Python that runs this.
    """
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise CompileError(
            "no compiler for AMD's GPUs: install ziglang, or name an installed ROCm (HVD_ROCM)"
        )
    return Path(found.origin).with_name("zig")


def compile_with_zig(zig: Path, source: Path, include: Path, architecture: str) -> bytes:
    """Return a linked code object for one architecture.

    Raises:
        CompileError: The source has errors, or clang does not know the architecture.
    """
    with tempfile.TemporaryDirectory() as folder:
        compiled, linked = Path(folder, "kernels.o"), Path(folder, "kernels.co")
        target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-nogpulib")
        words = (*target, *_OPTIONS, f"-I{include}", "-x", "c++", "-c", str(source))
        _run(str(zig), "clang", *words, "-o", str(compiled))
        flags = ("-shared", "--no-undefined", "--strip-all")
        _run(str(zig), "ld.lld", *flags, str(compiled), "-o", str(linked))
        return linked.read_bytes()


def hipcc_words(source: Path, include: Path, architectures: Sequence[str]) -> list[str]:
    """Return hipcc's arguments, but for the output."""
    targets = [f"--offload-arch={name}" for name in architectures]
    defines = ("-D__HIP_PLATFORM_AMD__", f"-I{include}")
    return ["--genco", *targets, *_OPTIONS, *defines, "-x", "hip", str(source)]


def compile_with_hipcc(
    rocm: Path, source: Path, include: Path, architectures: Sequence[str]
) -> bytes:
    """Return the bundle that ROCm's own compiler makes.

    Raises:
        CompileError: There is no hipcc, the source has errors, or an architecture is unknown to it.
    """
    hipcc = rocm / "bin" / "hipcc"
    if not hipcc.is_file():
        raise CompileError(f"{rocm}: no ROCm with a compiler, for it has no bin/hipcc")
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder, "kernels.bundle")
        words = hipcc_words(source, include, architectures)
        variables = {**os.environ, "HIP_PLATFORM": "amd"}  # else an nvcc on the PATH wins
        _run(str(hipcc), *words, "-o", str(bundle), env=variables)
        return bundle.read_bytes()


def make_bundle(objects: Mapping[str, bytes]) -> bytes:
    """Join code objects, by architecture, into what hipModuleLoadData takes.

    The first entry stands for the host and is empty, as hipcc has it.
    """
    entries = {_HOST: b"", **{_TARGET + name: data for name, data in objects.items()}}
    size = len(BUNDLE_MAGIC) + 8 + sum(24 + len(name) for name in entries)
    table, body, at = b"", b"", -(-size // _ALIGNMENT) * _ALIGNMENT
    padding = b"\0" * (at - size)
    for name, data in entries.items():
        table += struct.pack("<QQQ", at, len(data), len(name)) + name.encode()
        filled = data + b"\0" * (-len(data) % _ALIGNMENT)
        body += filled
        at += len(filled)
    return BUNDLE_MAGIC + struct.pack("<Q", len(entries)) + table + padding + body


def bundled_architectures(bundle: bytes) -> list[str]:
    """Return what a bundle holds code for.

    Raises:
        CompileError: The bytes are no bundle, or one of another form, such as a compressed one.
    """
    if not bundle.startswith(BUNDLE_MAGIC):
        raise CompileError(f"not an uncompressed bundle of code objects: begins {bundle[:8]!r}")
    (count,) = struct.unpack_from("<Q", bundle, len(BUNDLE_MAGIC))
    found, at = [], len(BUNDLE_MAGIC) + 8
    for _ in range(count):
        _, size, length = struct.unpack_from("<QQQ", bundle, at)
        name = bundle[at + 24 : at + 24 + length].decode()
        if size and not name.startswith("host-"):
            found.append(name.rpartition("-")[2])
        at += 24 + length
    return found


def _compile(options: argparse.Namespace) -> bytes:
    source, include, wanted = options.source, options.include, options.architectures
    for name in wanted:
        if not _ARCHITECTURE.fullmatch(name):
            raise CompileError(f"{name!r} is no architecture of AMD's GPUs, such as gfx90a")
    if options.rocm:
        bundle = compile_with_hipcc(options.rocm, source, include, wanted)
    else:
        zig = options.zig or find_zig()
        bundle = make_bundle(
            {name: compile_with_zig(zig, source, include, name) for name in wanted}
        )
    found = bundled_architectures(bundle)
    if sorted(found) != sorted(wanted):
        raise CompileError(f"asked for {', '.join(wanted)}, the compiler made {', '.join(found)}")
    return bundle


def _run(*words: str, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        words,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_DEADLINE,
    )
    if done.returncode != 0:
        raise CompileError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Compile GPU kernels for AMD with PyPI's zig.")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--include", type=Path, required=True, help="root of the #include paths")
    parser.add_argument("--out", type=Path, required=True, help="folder for the bundle")
    parser.add_argument("--zig", type=Path, help="the program (default: ziglang's, as installed)")
    parser.add_argument("--rocm", type=Path, help="an installed ROCm, whose hipcc compiles instead")
    parser.add_argument("architectures", nargs="+", metavar="gfxNNN")
    options = parser.parse_args(arguments)
    target = options.out / f"{options.source.stem}.hip.bundle"
    try:
        bundle = _compile(options)
        options.out.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".partial")
        partial.write_bytes(bundle)
        partial.replace(target)
    except (CompileError, OSError, subprocess.TimeoutExpired) as error:
        print(f"compile_hip_code: {error}", file=sys.stderr)
        return 1
    found = ", ".join(options.architectures)
    print(f"{target.name}: {found}, {len(bundle) / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
