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

    def runtime_arguments(self) -> dict[str, str]:
        """What `_bindings.Runtime` takes."""
        return {
            "gpu_kind": self.kind,
            "gpu_code": str(CODE_FOLDER),
            "gpu_drivers": "\n".join(self.drivers),
            "nccl_libraries": "\n".join(self.nccl),
        }


def gpu_support(
    kind: str = _buildinfo.GPU,
    environment: Mapping[str, str] = os.environ,
    search_path: Sequence[str] | None = None,
) -> GpuSupport:
    """Lists the libraries that a build opens when the first tensor on a GPU comes.

    NCCL is looked for in the process, in `$HOROVOD_NCCL_HOME/lib`, in NVIDIA's wheels, and where
    the dynamic loader looks.

    Args:
        kind: of the build's code.
        environment: variables of the process.
        search_path: folders that wheels may be installed in (default: `sys.path`).
    """
    if not kind:
        return GpuSupport("")
    name = _NCCL[kind]
    folders = [Path(home, "lib")] if (home := environment.get("HOROVOD_NCCL_HOME")) else []
    folders += [Path(item) / _WHEEL for item in (sys.path if search_path is None else search_path)]
    found = [str(folder / name) for folder in folders if (folder / name).is_file()]
    return GpuSupport(kind, _DRIVERS[kind], (*found, name))
