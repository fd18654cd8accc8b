"""Looks for MPI, NCCL and RCCL without opening a library: their files, and the linker's cache.

For people who look at a machine; an installation does not ask.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence

from variantwheel_selector.bounded_read import read_bounded
from variantwheel_selector.machine import LIBRARIES, TEXT_LIMITS
from variantwheel_selector.parse.libraries import SONAMES, cached_paths

_CACHE = "/etc/ld.so.cache"
_CACHE_LIMIT = 4 * 1024 * 1024
_SYSTEM_FOLDERS = (
    "/usr/lib64/openmpi/lib",
    "/usr/lib64/mpich/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/opt/rocm/lib",
)
_IN_SITE_PACKAGES = ("nvidia/nccl/lib", "torch/lib")


def probe_libraries(
    root: str = "", environment: Mapping[str, str] | None = None, folders: Sequence[str] = ()
) -> dict[str, str]:
    """Return the text of the machine folder about libraries.

    Args:
        root: Put before every path; tests give another one.
        environment: Of this process.
        folders: Further folders to look into, first.
    """
    variables = os.environ if environment is None else environment
    lines: dict[str, str] = {}
    for path in _candidates(root, variables, folders):
        if path in lines:
            continue
        try:
            real = os.path.realpath(root + path, strict=True)
        except OSError:
            continue
        name = os.path.basename(real)  # noqa: PTH119 - a text, not a path to work with
        if "\n" not in path + name and "\t" not in path + name:
            lines[path] = name
    text = "".join(f"{path}\t{name}\n" for path, name in lines.items())
    return {LIBRARIES: text.encode("ascii", "replace").decode("ascii")[: TEXT_LIMITS[LIBRARIES]]}


def _candidates(root: str, variables: Mapping[str, str], folders: Sequence[str]) -> Iterator[str]:
    places = [*folders, *variables.get("LD_LIBRARY_PATH", "").split(":")]
    for scheme in ("purelib", "platlib"):
        places += [f"{sysconfig.get_path(scheme)}/{inner}" for inner in _IN_SITE_PACKAGES]
    places += [f"{sys.prefix}/lib", f"{variables.get('CONDA_PREFIX', '')}/lib"]
    for folder in places:
        if folder.startswith("/") and len(folder) < 400:
            yield from (f"{folder}/{soname}" for soname in SONAMES)
    with contextlib.suppress(OSError):
        yield from cached_paths(read_bounded(root + _CACHE, _CACHE_LIMIT))
    for folder in _SYSTEM_FOLDERS:
        yield from (f"{folder}/{soname}" for soname in SONAMES)
