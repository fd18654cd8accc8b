"""Reads this machine: with `probe_gpu`, what alone asks the operating system about hardware.

Whatever cannot be read becomes an unknown fact with its reason. What is about GPUs is read by
`probe_gpu`, the only place where a process is started, and only if an NVIDIA device may be there.
"""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
from collections.abc import Collection, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES

from variantwheel_selector.bounded_read import read_bounded
from variantwheel_selector.gpu_signs import without_gpu
from variantwheel_selector.machine import (
    AUXV,
    BATCH_SYSTEM,
    CPUINFO,
    DEVICE_FILES,
    GLIBC_CPUID,
    TEXT_LIMITS,
    Machine,
    PythonFacts,
)
from variantwheel_selector.parse.auxv import decode_auxv, parse_auxv, x86_disagreement
from variantwheel_selector.parse.cpuinfo import cpu_flags, first_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from variantwheel_selector.probe_gpu import GpuSearch

_CPUINFO_LIMIT = 16 * 1024
_AUXV_LIMIT = 4 * 1024
_ELF_LIMIT = 64 * 1024
_MUSL_LIMIT = 4 * 1024 * 1024
_BATCH_PREFIXES = ("SLURM_", "PBS_", "LSB_", "SGE_", "FLUX_")
_BATCH_FILES = ("/etc/slurm/slurm.conf", "/run/slurm", "/etc/pbs.conf")


def probe(
    namespaces: Collection[str] | None = None,
    gpu_search: GpuSearch | None = None,
    *,
    libraries: bool = False,
) -> Machine:
    """Return the facts about this machine and this interpreter.

    Args:
        namespaces: Those of the release in question, by default all: no GPU is woken up for a
            release that has no variants for it.
        gpu_search: Where to look for GPUs, if not in the usual places.
        libraries: Whether libraries that a program could open at run time are looked for.
    """
    unknown: dict[str, str] = {}
    texts: dict[str, str] = {}
    machine = _architecture()
    pointer_bits = struct.calcsize("P") * 8
    if sys.platform == "linux":
        cpuinfo = _read("/proc/cpuinfo", _CPUINFO_LIMIT, "cpuinfo", unknown)
        if cpuinfo is not None:
            texts[CPUINFO] = first_block(cpuinfo.decode("utf-8", errors="replace"))
        auxv = _read("/proc/self/auxv", _AUXV_LIMIT, "auxv", unknown)
        if auxv is not None:
            texts[AUXV] = decode_auxv(auxv, pointer_bits)
        if machine == "x86_64" and pointer_bits == 64 and _must_ask_glibc(texts):
            from variantwheel_selector.probe_cpu import glibc_cpuid  # noqa: PLC0415 - rarely needed

            try:
                texts[GLIBC_CPUID] = glibc_cpuid()
            except (ImportError, OSError, AttributeError, ValueError) as error:
                unknown["glibc_cpuid"] = f"glibc 2.33 or newer cannot be asked: {error}"
        nothing_seen = without_gpu() if gpu_search is None else None
        if nothing_seen is not None:
            texts[DEVICE_FILES] = nothing_seen
        else:
            from variantwheel_selector.probe_gpu import (  # noqa: PLC0415 - most have no GPU
                GpuSearch,
                probe_gpu,
            )

            nvidia = namespaces is None or "nvidia" in namespaces
            texts |= probe_gpu(gpu_search or GpuSearch(), unknown, nvidia=nvidia)
        texts |= _batch_system(os.environ)
        if libraries:
            from variantwheel_selector.probe_libraries import (  # noqa: PLC0415 - rarely needed
                probe_libraries,
            )

            texts |= probe_libraries()
    elif sys.platform == "darwin":
        from variantwheel_selector.probe_cpu import sysctl_values  # noqa: PLC0415 - on macOS alone

        texts |= sysctl_values(unknown)
        unknown["device_files"] = f"GPUs are not looked for on {sys.platform}"
    else:
        unknown["cpu"] = f"CPU features are not read on {sys.platform}"
        unknown["device_files"] = f"GPUs are not looked for on {sys.platform}"
    return Machine(
        system=sys.platform,
        machine=machine,
        pointer_bits=pointer_bits,
        libc=_libc(unknown),
        python=_python(),
        texts={name: text[: TEXT_LIMITS[name]] for name, text in texts.items()},
        unknown=unknown,
    )


def _architecture() -> str:
    """Return the architecture that the interpreter was built for, as far as Python knows it."""
    name = sysconfig.get_platform().rpartition("-")[2]
    return os.uname().machine if name.startswith(("universal", "fat")) else name


def _must_ask_glibc(texts: dict[str, str]) -> bool:
    """Tell whether `/proc/cpuinfo` does not describe the CPU that executes this process."""
    flags = cpu_flags(texts.get(CPUINFO, ""))
    if flags is None:
        return True
    hwcap = parse_auxv(texts.get(AUXV, "")).get("AT_HWCAP")
    return hwcap is not None and bool(x86_disagreement(flags, hwcap))


def _read(path: str, limit: int, fact: str, unknown: dict[str, str]) -> bytes | None:
    try:
        return read_bounded(path, limit)
    except OSError as error:
        unknown[fact] = f"cannot read {path}: {error.strerror}"
        return None


def _libc(unknown: dict[str, str]) -> str | None:
    if sys.platform != "linux":
        return None
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        name = None
    if name:
        return name
    from variantwheel_selector.parse.musl import (  # noqa: PLC0415 - where glibc is not
        elf_interpreter,
        musl_version,
    )

    try:
        path = elf_interpreter(read_bounded(sys.executable, _ELF_LIMIT))
        found = musl_version(read_bounded(path, _MUSL_LIMIT)) if path else None
    except OSError as error:
        unknown["libc"] = f"not glibc, and cannot read {error.filename}: {error.strerror}"
        return None
    if found is None:
        unknown["libc"] = "not glibc: confstr knows no CS_GNU_LIBC_VERSION; and not musl"
    return found


def _batch_system(environment: Mapping[str, str]) -> dict[str, str]:
    """Return names of variables and files of batch systems: compute nodes may differ from here."""
    found = {name.partition("_")[0] for name in environment if name.startswith(_BATCH_PREFIXES)}
    lines = [f"variables {name}_*" for name in sorted(found)]
    # A link to a folder of a network is not followed: that may never answer.
    lines += [path for path in _BATCH_FILES if os.path.lexists(path)]
    return {BATCH_SYSTEM: "".join(f"{line}\n" for line in lines)} if lines else {}


def _python() -> PythonFacts:
    short = {"cpython": "cp", "pypy": "pp"}.get(sys.implementation.name, sys.implementation.name)
    major, minor = sys.version_info[:2]
    version = ".".join(map(str, sys.version_info[:3]))
    return PythonFacts(f"{short}{major}{minor}", version, _abis(EXTENSION_SUFFIXES))


def _abis(suffixes: Sequence[str]) -> tuple[str, ...]:
    """Return the ABIs that the best extension suffix names, best first.

    The suffix is `.cpython-311-x86_64-linux-gnu.so`, `.cpython-313t-…` without the GIL,
    `.cpython-311d-…` in debug builds, `.pypy310-pp73-…` with PyPy and `.cp311-win_amd64.pyd` on
    Windows. There is none where Python cannot load extensions, as in static builds for musl.
    """
    if not suffixes:
        return ()
    parts = suffixes[0].split(".")[1].split("-")
    if parts[0] == "cpython":
        abi = f"cp{parts[1]}"
        return (abi, abi.removesuffix("d")) if abi.endswith("d") else (abi,)
    if parts[0].startswith("pypy"):
        return ("_".join(parts[:2]),)
    return (parts[0],)
