r"""Compiles the GPU kernels with NVRTC: one machine-code file per architecture, PTX for the newest.

    python cmake/compile_cuda_code.py --source src/native/device/kernels.cu \
        --include src/native --out DIR sm_80 sm_90 compute_90

NVRTC comes from its PyPI wheel (`nvidia-cuda-nvrtc-cu11`, `-cu12`, or `nvidia-cuda-nvrtc` for CUDA
13), which has to be installed in the Python that runs this. No toolkit, compiler or GPU is needed.
API: https://docs.nvidia.com/cuda/nvrtc/
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import re
import sys
from collections.abc import Sequence
from pathlib import Path

DISTRIBUTIONS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11")
LIBRARY = re.compile(r"libnvrtc\.so\.\d[\d.]*")
ARCHITECTURE = re.compile(r"(sm|compute)_\d{2,3}")


class CompileError(Exception):
    """The device code cannot be compiled; the text says why."""


def find_nvrtc(distributions: Sequence[str] = DISTRIBUTIONS) -> Path:
    """Return NVRTC's library, from the one wheel of it that is installed.

    Raises:
        CompileError: None is installed, or several are and the choice would be arbitrary.
    """
    found = []
    for name in distributions:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found += [Path(str(item.locate())) for item in files if LIBRARY.fullmatch(item.name)]
    if len(found) != 1:
        listing = ", ".join(map(str, found)) or "none"
        raise CompileError(
            f"one NVRTC is needed, found: {listing}; install one of {', '.join(distributions)}"
        )
    return found[0]


class Nvrtc:
    """NVRTC's C interface, as far as it is used here."""

    def __init__(self, library: Path) -> None:
        # It opens its builtins by name alone, so they are opened before it, from beside it.
        for builtins in sorted(library.parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(library))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"

    def architectures(self) -> tuple[int, ...]:
        """Return the compute capabilities that it compiles for, such as 90."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        numbers = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(numbers))
        return tuple(numbers)

    def compile(self, source: Path, architecture: str, options: Sequence[str]) -> bytes:
        """Return machine code for `sm_NN`, PTX for `compute_NN`.

        Raises:
            CompileError: The source has errors; the text is the compiler's log.
        """
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(
                ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None
            )
        )
        try:
            arguments = [f"--gpu-architecture={architecture}", *options]
            array = (ctypes.c_char_p * len(arguments))(*(item.encode() for item in arguments))
            result = self._library.nvrtcCompileProgram(program, len(arguments), array)
            if result != 0:
                log = self._text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
                raise CompileError(f"{source.name} for {architecture}:\n{log.decode()}")
            kind = "CUBIN" if architecture.startswith("sm_") else "PTX"
            code = self._text(program, f"nvrtcGet{kind}Size", f"nvrtcGet{kind}")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))
        return code

    def _text(self, program: ctypes.c_void_p, size_name: str, name: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, size_name)(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, name)(program, buffer))
        return buffer.raw

    def _check(self, result: int) -> None:
        if result != 0:
            raise CompileError(self._library.nvrtcGetErrorString(result).decode())


def write_all(
    nvrtc: Nvrtc, source: Path, include: Path, out: Path, architectures: Sequence[str]
) -> list[Path]:
    """Compile for all architectures and write `kernels.sm_NN.cubin`, `kernels.compute_NN.ptx`.

    Raises:
        CompileError: An architecture is unknown to this NVRTC, or the source has errors.
    """
    known = nvrtc.architectures()
    for name in architectures:
        if not ARCHITECTURE.fullmatch(name) or int(name.split("_")[1]) not in known:
            raise CompileError(
                f"{name}: not an architecture of NVRTC {nvrtc.version()}, which knows sm_NN and "
                f"compute_NN for NN in {', '.join(map(str, known))}"
            )
    options = ["--std=c++17", f"--include-path={include}", "--fmad=false"]
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name in architectures:
        suffix = "cubin" if name.startswith("sm_") else "ptx"
        target = out / f"{source.stem}.{name}.{suffix}"
        partial = target.with_suffix(".partial")
        partial.write_bytes(nvrtc.compile(source, name, options))
        partial.replace(target)
        written.append(target)
    return written


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Compile GPU kernels with NVRTC from PyPI.")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--include", type=Path, required=True, help="root of the #include paths")
    parser.add_argument("--out", type=Path, required=True, help="folder for the code files")
    parser.add_argument("--nvrtc", type=Path, help="the library (default: the installed wheel's)")
    parser.add_argument(
        "--distribution", choices=DISTRIBUTIONS, help="the wheel, where several are installed"
    )
    parser.add_argument("architectures", nargs="+", metavar="sm_NN|compute_NN")
    options = parser.parse_args(arguments)
    try:
        wheels = [options.distribution] if options.distribution else DISTRIBUTIONS
        nvrtc = Nvrtc(options.nvrtc or find_nvrtc(wheels))
        files = write_all(
            nvrtc, options.source, options.include, options.out, options.architectures
        )
    except (CompileError, OSError) as error:
        print(f"compile_cuda_code: {error}", file=sys.stderr)
        return 1
    print(f"NVRTC {nvrtc.version()}: {', '.join(file.name for file in files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
