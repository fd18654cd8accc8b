"""Reads what this machine says about its GPUs: device files, drivers' files, NVIDIA's libraries.

Without a sign of a GPU this costs a few `stat` calls: no ctypes, no process. With one, NVIDIA's
libraries are asked in a process of their own, and all of that has one deadline.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Mapping, Sequence

from variantwheel_selector.bounded_read import read_bounded
from variantwheel_selector.gpu_signs import (
    DEVICES,
    MARKERS,
    NVIDIA_MODULE_VERSION,
    NVIDIA_PROC_VERSION,
    PCI_LIMIT,
    PCI_LISTING,
    PCI_VENDORS,
    SOC_FAMILY,
    TOOLKIT,
    VERSION_FILES,
    without_gpu,
)
from variantwheel_selector.machine import (
    DEVICE_FILES,
    GPU_ENVIRONMENT,
    GPU_FILES,
    KFD_NODES,
    NVIDIA_DRIVER,
    NVIDIA_SMI,
    PCI_CARDS,
    TEXT_LIMITS,
)
from variantwheel_selector.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PCI_DEVICES = "/sys/bus/pci/devices"
KFD_TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"

LIBRARY_FOLDERS = (
    "",  # the dynamic linker's cache and LD_LIBRARY_PATH
    "/usr/lib/wsl/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib64/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/x86_64-linux-gnu/nvidia",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)
"""Where NVIDIA's libraries are looked for: distributions, WSL, Jetson, GKE and NixOS."""

_ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_XNACK",
    "NVIDIA_DRIVER_CAPABILITIES",
)
_NUMBERED_DEVICE = r"nvidia[0-9]{1,3}"
_RENDER_NODE = r"renderD[0-9]{1,4}"
_ROCM_FOLDER = r"rocm(-[0-9.]{1,16})?"
_MOST_NAMES = 256
_LINE_LIMIT = 256
_NODE_LIMIT = 4 * 1024
_PRINTABLE = {code: "?" for code in range(256) if not (32 <= code < 127 or code in (9, 10))}


@record
class GpuSearch:
    """Where and for how long GPUs are looked for; tests give other places than the real ones.

    Attributes:
        root: Put before every path.
        library_folders: Where NVIDIA's libraries are looked for; see `nvidia_query`.
        nvidia_smi: The program, asked last; none if it is not to be asked.
        deadline_s: How long all of NVIDIA's programs and libraries together may take.
        environment: Of this process.
    """

    root: str = ""
    library_folders: Sequence[str] = LIBRARY_FOLDERS
    nvidia_smi: str | None = "nvidia-smi"
    deadline_s: float = 10.0
    environment: Mapping[str, str] | None = None


def probe_gpu(search: GpuSearch, unknown: dict[str, str], *, nvidia: bool = True) -> dict[str, str]:
    """Return the texts of a machine folder that are about GPUs.

    Args:
        search: Where to look.
        unknown: Takes up what could not be found out, each with the reason.
        nvidia: Whether NVIDIA's libraries are asked if there is a sign of a device.
    """
    nothing_seen = without_gpu(search.root)
    if nothing_seen is not None:
        return {DEVICE_FILES: nothing_seen}
    environment = os.environ if search.environment is None else search.environment
    files = _device_files(search.root)
    contents = _file_lines(search.root)
    texts = {DEVICE_FILES: "".join(f"{path} {state}\n" for path, state in files.items())}
    if contents:
        texts[GPU_FILES] = "".join(f"{path}\t{line}\n" for path, line in contents.items())
    if "/sys/class/kfd" in files:
        texts[KFD_NODES] = _kfd_nodes(search.root)
    nvidia_seen = _nvidia_seen(files, contents)
    if nvidia_seen or "/sys/class/kfd" in files or "/dev/kfd" in files:
        variables = _environment(environment)
        if variables:
            texts[GPU_ENVIRONMENT] = variables
    cards = _pci_cards(search.root)
    if cards:
        texts[PCI_CARDS] = cards
    # A driver that is visible without a device node, as in a container, is not asked.
    if nvidia and any(path.startswith(("/dev/nv", "/dev/dxg")) for path in files):
        _ask_nvidia(search, environment, texts, unknown)
    return {name: text[: TEXT_LIMITS[name]] for name, text in texts.items()}


def _nvidia_seen(files: Mapping[str, str], contents: Mapping[str, str]) -> bool:
    """Tell whether anything speaks for an NVIDIA device; `/dev/dxg` is any GPU under WSL."""
    return (
        any(path.startswith(("/dev/nv", "/dev/dxg", "/usr/lib/wsl/")) for path in files)
        or NVIDIA_PROC_VERSION in contents
        or NVIDIA_MODULE_VERSION in contents
        or contents.get(SOC_FAMILY) == "Tegra"
    )


def _device_files(root: str) -> dict[str, str]:
    paths = [*DEVICES, *MARKERS]
    paths += [f"/dev/{name}" for name in _names(f"{root}/dev", _NUMBERED_DEVICE, "nvidia")]
    found: dict[str, str] = {}
    for path in paths:
        state = _state(root + path, follow_symlinks=path != TOOLKIT)
        if state:
            found[path] = state
    if "/dev/kfd" in found or "/sys/class/kfd" in found:
        for name in _names(f"{root}/dev/dri", _RENDER_NODE):
            found[f"/dev/dri/{name}"] = _state(f"{root}/dev/dri/{name}")
    return {path: state for path, state in found.items() if state}


def _state(path: str, *, follow_symlinks: bool = True) -> str:
    try:
        found = os.stat(path, follow_symlinks=follow_symlinks)  # noqa: PTH116 - costs next to nothing
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return "denied"
    if stat.S_ISDIR(found.st_mode) or not path.rpartition("/dev/")[1]:
        return "present"
    return "read-write" if os.access(path, os.R_OK | os.W_OK) else "denied"


def _names(folder: str, pattern: str, start: str = "") -> list[str]:
    try:
        listed = os.listdir(folder)  # noqa: PTH208 - the gate must cost next to nothing
    except OSError:
        return []
    names = [name for name in listed if name.startswith(start)]
    return sorted(name for name in names if re.fullmatch(pattern, name))[:_MOST_NAMES]


def _file_lines(root: str) -> dict[str, str]:
    paths = list(VERSION_FILES)
    paths += [
        f"/opt/{name}/.info/version" for name in _names(f"{root}/opt", _ROCM_FOLDER, "rocm")[:32]
    ]
    found: dict[str, str] = {}
    for path in paths:
        try:
            line = _clean(read_bounded(root + path, _LINE_LIMIT)).partition("\n")[0].strip()
        except OSError:
            continue
        if line:
            found[path] = line
    return found


def _pci_cards(root: str) -> str:
    """Return the NVIDIA and AMD cards on the PCI bus, also those that no driver holds."""
    try:
        listing = _clean(read_bounded(root + PCI_LISTING, PCI_LIMIT))
        if not any(f"\t{vendor}" in listing for vendor in PCI_VENDORS):
            return ""
        from variantwheel_selector.parse.pci import (  # noqa: PLC0415 - rarely needed
            is_gpu_class,
            listed_addresses,
        )

        listed = listed_addresses(listing)
        names = os.listdir(root + PCI_DEVICES) if listed else []  # noqa: PTH208 - cheaper
    except OSError:
        return ""
    lines: list[str] = []
    for address, vendor, device in listed:
        for name in sorted(name for name in names if name.endswith(f":{address}"))[:4]:
            folder = f"{root}{PCI_DEVICES}/{name}"
            try:
                if not is_gpu_class(_clean(read_bounded(f"{folder}/class", _LINE_LIMIT))):
                    continue
                driver = os.path.basename(os.readlink(f"{folder}/driver"))  # noqa: PTH115, PTH119
            except FileNotFoundError:
                driver = "-"
            except OSError:
                continue
            core = _graphics_core(folder) if vendor == "1002" else ""
            lines.append(f"{name} {vendor}:{device} {_clean(os.fsencode(driver))}{core}\n")
    return "".join(lines)


def _graphics_core(folder: str) -> str:
    """Return what the amdgpu driver found out about a card, also where KFD is not offered."""
    numbers: list[str] = []
    for name in ("major", "minor", "revision"):
        try:
            text = _clean(read_bounded(f"{folder}/ip_discovery/die/0/GC/0/{name}", _LINE_LIMIT))
        except OSError:
            return ""
        numbers.append(text.strip())
    known = all(number.isdigit() and len(number) <= 3 for number in numbers)
    return f" gc={'.'.join(numbers)}" if known else ""


def _environment(environment: Mapping[str, str]) -> str:
    lines: list[str] = []
    for name in _ENVIRONMENT:
        if name in environment:
            value = _clean(os.fsencode(environment[name])[:_LINE_LIMIT])
            lines.append(f"{name}={' '.join(value.splitlines())}\n")
    return "".join(lines)


def _kfd_nodes(root: str) -> str:
    folder = root + KFD_TOPOLOGY
    blocks: list[str] = []
    for name in sorted(_names(folder, r"[0-9]{1,4}"), key=int):
        try:
            text = _clean(read_bounded(f"{folder}/{name}/properties", _NODE_LIMIT))
        except OSError as error:
            # The kernel answers EPERM for a GPU outside of the device cgroup.
            text = f"unreadable {error.strerror}"
        blocks.append(f"node {name}\n{text.strip()}\n")
    return "\n".join(blocks)


def _ask_nvidia(
    search: GpuSearch,
    environment: Mapping[str, str],
    texts: dict[str, str],
    unknown: dict[str, str],
) -> None:
    # Costs more than everything else here, and is needed only now.
    from variantwheel_selector.child_process import run_child  # noqa: PLC0415
    from variantwheel_selector.parse.compute_cap import parse_compute_cap  # noqa: PLC0415
    from variantwheel_selector.parse.nvidia_driver import parse_nvidia_driver  # noqa: PLC0415

    deadline = time.monotonic() + search.deadline_s
    child_environment = {
        name: value
        for name, value in environment.items()
        if name not in ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD") and not name.startswith("PYTHON")
    }
    command = [sys.executable, "-I", "-S", "-c", _query(), *search.library_folders]
    end = run_child(command, child_environment, deadline, TEXT_LIMITS[NVIDIA_DRIVER])
    if end.output:
        texts[NVIDIA_DRIVER] = _clean(end.output)
    if end.trouble:
        unknown["nvidia_driver"] = f"the process that asks NVIDIA's libraries {end.trouble}"
    answer = parse_nvidia_driver(texts.get(NVIDIA_DRIVER, ""))
    no_libcuda = answer.cuda is not None and answer.cuda.library is None
    if answer.capabilities() or no_libcuda or search.nvidia_smi is None:
        return
    program = _find_program(search.nvidia_smi, environment)
    if program is None:
        return
    # The last resort: it may be of another version than the driver, and prints errors as output.
    command = [program, "--query-gpu=compute_cap", "--format=csv,noheader"]
    end = run_child(command, child_environment, deadline, TEXT_LIMITS[NVIDIA_SMI])
    if end.trouble:
        unknown["nvidia_smi"] = f"nvidia-smi {end.trouble}"
    elif parse_compute_cap(_clean(end.output)):
        texts[NVIDIA_SMI] = _clean(end.output)
    else:
        first = _clean(end.output).partition("\n")[0][:_LINE_LIMIT]
        unknown["nvidia_smi"] = f"nvidia-smi printed no compute capabilities but {first!r}"


def _query() -> str:
    """Return the program that asks, by this module's loader: both may stand in an archive."""
    loader: Any = __spec__.loader
    text: bytes = loader.get_data(f"{__file__.rpartition('/')[0]}/nvidia_query.py")
    return text.decode("utf-8")


def _find_program(name: str, environment: Mapping[str, str]) -> str | None:
    from shutil import which  # noqa: PLC0415 - costs more than everything else here

    return which(name, path=f"{environment.get('PATH', os.defpath)}:/usr/lib/wsl/lib")


def _clean(data: bytes) -> str:
    """Return bytes as ASCII text of the same length."""
    return data.decode("latin-1").translate(_PRINTABLE)
