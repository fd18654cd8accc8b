"""What this build can do with GPUs, and where the libraries for it lie; opens none of them."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from horovod._loader import NATIVE
from horovod._native import _buildinfo

CODE_FOLDER = NATIVE / "gpu"
_DRIVERS = {
    "cuda": ("libcuda.so.1",),
    "hip": ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"),
}
_NCCL = {"cuda": "libnccl.so.2", "hip": "librccl.so.1"}
_WHEEL = Path("nvidia", "nccl", "lib")  # of nvidia-nccl-cu11, -cu12 and -cu13
_ROCM = Path("/opt/rocm")  # whose packages do not tell the dynamic loader of it


@dataclass(frozen=True)
class GpuSupport:
    """The GPU side of a build.

    Attributes:
        kind: "cuda", "hip", or "" for a build without code for GPUs.
        drivers: names of the driver's library, in the order in which they are tried.
        nccl: names and paths of NCCL or RCCL, likewise; one that the process has loaded, as
            PyTorch does, comes before them all.
    """

    kind: str
    drivers: tuple[str, ...] = ()
    nccl: tuple[str, ...] = ()

    def runtime_arguments(self) -> dict[str, bytes]:
        """What `_bindings.Runtime` takes: files' names are bytes, which need not be UTF-8."""
        given = {
            "gpu_kind": self.kind,
            "gpu_code": str(CODE_FOLDER),
            "gpu_drivers": "\n".join(self.drivers),
            "nccl_libraries": "\n".join(self.nccl),
        }
        return {name: os.fsencode(text) for name, text in given.items()}


def gpu_support(
    kind: str = _buildinfo.GPU,
    environment: Mapping[str, str] = os.environ,
    search_path: Sequence[str] | None = None,
    rocm: Path = _ROCM,
) -> GpuSupport:
    """Lists the libraries that a build opens when the first tensor on a GPU comes.

    They are looked for in the process, NCCL in `$HOROVOD_NCCL_HOME/lib`, those of AMD in
    `$ROCM_PATH/lib`, NCCL in NVIDIA's wheels, and all where the dynamic loader looks; at last
    those of AMD where ROCm usually is.

    Args:
        kind: of the build's code.
        environment: variables of the process.
        search_path: folders that wheels may be installed in (default: `sys.path`).
        rocm: where ROCm usually is.
    """
    if not kind:
        return GpuSupport("")
    amd = kind == "hip"
    nccl_home, rocm_home = environment.get("HOROVOD_NCCL_HOME"), environment.get("ROCM_PATH")
    stated = [Path(rocm_home, "lib")] if amd and rocm_home else []
    usual = [rocm / "lib"] if amd else []
    homes = [Path(nccl_home, "lib")] if nccl_home else []
    wheels = [Path(item) / _WHEEL for item in (sys.path if search_path is None else search_path)]

    def places(names: Sequence[str], before: Sequence[Path]) -> tuple[str, ...]:
        return (*_files(before, names), *names, *_files(usual, names))

    return GpuSupport(
        kind,
        drivers=places(_DRIVERS[kind], stated),
        nccl=places([_NCCL[kind]], [*homes, *stated, *wheels]),
    )


def _files(folders: Sequence[Path], names: Sequence[str]) -> list[str]:
    paths = (folder / name for folder in folders for name in names)
    return [str(path) for path in paths if path.is_file()]
