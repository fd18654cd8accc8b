"""Asks NVIDIA's libraries about driver and devices; runs in a process of its own.

The process is started as `python -I -S -c TEXT FOLDER...` and imports nothing of this
package. An empty FOLDER means the dynamic linker's own search. It prints a JSON object per line
after each step, because the next step may crash or hang:

    {"nvml": {"library": path or null, "init": code, "cuda_version": 13000, ...}}
    {"cuda": {"library": path or null, "version": 13000, "error": code}}
    {"cuda_devices": {"init": code, "devices": [...]}}

A code is what a function of the library returned, 0 for success; null if it has no such function.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

_MOST_DEVICES = 64
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute in cuda.h
_VERSION_BYTES = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE in nvml.h


def as_json(value: object) -> str:
    """Return a value as JSON, as `json.dumps` would: importing that takes as long as Python."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_json(k)}: {as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    if isinstance(value, str):
        units = value.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
        return '"' + "".join(map(_escaped, units)) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _escaped(unit: str) -> str:
    character = chr(int(unit, 16))
    return character if " " <= character <= "~" and character not in '"\\' else f"\\u{unit}"


def _report(step: str, content: dict[str, object]) -> None:
    sys.stdout.write(as_json({step: content}) + "\n")
    sys.stdout.flush()


def _open(soname: str, folders: list[str]) -> tuple[ctypes.CDLL | None, dict[str, object]]:
    problem = ""
    for folder in folders:
        path = os.path.join(folder, soname) if folder else soname  # noqa: PTH118 - "" is no folder
        if folder and not os.path.exists(path):  # noqa: PTH110 - pathlib costs more than the rest
            continue
        try:
            return ctypes.CDLL(path), {"library": path}
        except OSError as error:
            problem = str(error)[:300]
    return None, {"library": None, "problem": problem}


def _call(library: ctypes.CDLL, name: str, *arguments: object) -> int | None:
    try:
        function = getattr(library, name)
    except AttributeError:
        return None
    return int(function(*arguments))


def _ask_nvml(folders: list[str]) -> None:
    library, found = _open("libnvidia-ml.so.1", folders)
    if library is not None:
        found["init"] = _call(library, "nvmlInit_v2")
        if found["init"] == 0:
            _describe_nvml(library, found)
    _report("nvml", found)


def _describe_nvml(library: ctypes.CDLL, found: dict[str, object]) -> None:
    driver = ctypes.create_string_buffer(_VERSION_BYTES)
    if _call(library, "nvmlSystemGetDriverVersion", driver, _VERSION_BYTES) == 0:
        found["driver_version"] = driver.value.decode("latin-1")
    # Not the function without _v2: it makes a version up when there is no libcuda.
    version = ctypes.c_int(0)
    error = _call(library, "nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version))
    found |= {"cuda_version": version.value, "cuda_version_error": error}
    count = ctypes.c_uint(0)
    found["count_error"] = _call(library, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    devices: list[dict[str, object]] = []
    for index in range(min(count.value, _MOST_DEVICES)):
        handle = ctypes.c_void_p()
        error = _call(library, "nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        device: dict[str, object] = {"error": error}
        if error == 0:
            major, minor = ctypes.c_int(0), ctypes.c_int(0)
            device["error"] = _call(
                library,
                "nvmlDeviceGetCudaComputeCapability",
                handle,
                ctypes.byref(major),
                ctypes.byref(minor),
            )
            device["compute_capability"] = [major.value, minor.value]
            mig, pending = ctypes.c_uint(0), ctypes.c_uint(0)
            error = _call(
                library, "nvmlDeviceGetMigMode", handle, ctypes.byref(mig), ctypes.byref(pending)
            )
            device["mig"] = error == 0 and mig.value == 1
        devices.append(device)
    found["devices"] = devices


def _ask_cuda(folders: list[str]) -> None:
    # Never `libcuda.so`: that is the toolkit's stub for linking.
    library, found = _open("libcuda.so.1", folders)
    if library is None:
        _report("cuda", found)
        return
    version = ctypes.c_int(0)
    found["error"] = _call(library, "cuDriverGetVersion", ctypes.byref(version))
    found["version"] = version.value
    _report("cuda", found)
    listed: dict[str, object] = {"init": _call(library, "cuInit", 0)}
    if listed["init"] == 0:
        count = ctypes.c_int(0)
        listed["count_error"] = _call(library, "cuDeviceGetCount", ctypes.byref(count))
        devices: list[dict[str, object]] = []
        for index in range(min(count.value, _MOST_DEVICES)):
            values: list[int] = []
            error: int | None = 0
            for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
                value = ctypes.c_int(0)
                error = error or _call(
                    library, "cuDeviceGetAttribute", ctypes.byref(value), attribute, index
                )
                values.append(value.value)
            devices.append({"error": error, "compute_capability": values})
        listed["devices"] = devices
    _report("cuda_devices", listed)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _ask_nvml(sys.argv[1:])
    _ask_cuda(sys.argv[1:])
    os._exit(0)  # not through the libraries' own clean-up, which may hang
