"""Where a GPU shows itself first; on machines without any sign no more than this is looked at."""

from __future__ import annotations

import os

from variantwheel_selector.bounded_read import read_bounded

NVIDIA_PROC_VERSION = "/proc/driver/nvidia/version"
NVIDIA_MODULE_VERSION = "/sys/module/nvidia/version"
AMDGPU_VERSION = "/sys/module/amdgpu/version"
SOC_FAMILY = "/sys/devices/soc0/family"
VERSION_FILES = (NVIDIA_PROC_VERSION, NVIDIA_MODULE_VERSION, AMDGPU_VERSION, SOC_FAMILY)
"""Files whose first line tells something."""

DEVICES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/dxg",
    "/dev/nvhost-gpu",
    "/dev/nvgpu",
    "/dev/kfd",
)
TOOLKIT = "/usr/local/cuda"
"""The CUDA toolkit, as in images that programs are built in; by itself no sign of a GPU.

Often a link, which is not followed: behind it may be a folder of a network that never answers.
"""
MARKERS = ("/usr/lib/wsl/lib/libcuda.so.1", "/sys/class/kfd", TOOLKIT)
NAME_STARTS = (("/dev", "nvidia"), ("/opt", "rocm"))
"""Folders, and how names in them begin that belong to a GPU."""

PCI_LISTING = "/proc/bus/pci/devices"
PCI_VENDORS = ("10de", "1002")
PCI_LIMIT = 256 * 1024


def without_gpu(root: str = "") -> str | None:
    """Return what `device_files.txt` says of a machine where nothing speaks for a GPU.

    Args:
        root: Put before every path.

    Returns:
        The text, which names the toolkit at most; none if `probe_gpu` has to look closer.
    """
    signs = [*DEVICES, *MARKERS, *VERSION_FILES]
    signs.remove(TOOLKIT)
    if any(_may_be_there(root + path) for path in signs):
        return None
    for folder, start in NAME_STARTS:
        try:
            names = os.listdir(root + folder)  # noqa: PTH208 - pathlib takes time
        except OSError:
            continue
        if any(name.startswith(start) for name in names):
            return None
    try:
        listing = read_bounded(root + PCI_LISTING, PCI_LIMIT)
    except OSError:
        listing = b""
    if any(f"\t{vendor}".encode() in listing for vendor in PCI_VENDORS):
        return None
    try:
        os.lstat(root + TOOLKIT)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None
    return f"{TOOLKIT} present\n"


def _may_be_there(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
