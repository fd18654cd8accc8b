"""Loads the native module, and picks the kernels that this CPU can execute."""

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from horovod._levels import (
    BASELINE,
    choose_level,
    describe_misfit,
    describe_missing_library,
    describe_missing_module,
    level_asked_for,
    runs_on,
)

NATIVE = Path(__file__).parent / "_native"
CORE_LIBRARY = "libhorovod_core.so"
KERNELS_LIBRARY = "libhorovod_kernels.so"

try:
    from horovod._native import _bindings, _buildinfo
except ImportError as error:
    raise ImportError(
        describe_missing_module(NATIVE, sysconfig.get_config_var("EXT_SUFFIX"), str(error))
    ) from error

__all__ = ["CoreLibrary", "_bindings", "select_core"]


_found: set[Path] = set()  # it stays loaded, also while its environment is installed anew


@dataclass(frozen=True)
class CoreLibrary:
    """The core library to open, the kernels for it, and how they came to be chosen.

    Attributes:
        path: the shared library.
        kernels: the library of kernels; None for those of the baseline, which the core holds.
        level: the CPU level of the kernels.
        levels: all levels in this wheel, lowest first.
        cpu: the level that this CPU supports.
    """

    path: Path
    kernels: Path | None
    level: str
    levels: tuple[str, ...]
    cpu: str

    @property
    def file(self) -> bytes:
        """The path as the system has it, which need not be UTF-8."""
        return os.fsencode(self.path)

    @property
    def fits(self) -> bool:
        """Whether this CPU runs what the wheel was made for."""
        return runs_on(level_asked_for(self.levels), self.cpu)

    def misfit(self) -> str:
        """What to tell the user when it does not fit."""
        return describe_misfit(self.levels, self.level, self.cpu)


def select_core() -> CoreLibrary:
    """Compares the wheel's levels with this CPU.

    Raises:
        ImportError: no level runs here, or a library is missing.
    """
    cpu = _bindings.cpu_level()
    level = choose_level(_buildinfo.LEVELS, cpu, _bindings.gainful_level())
    path = NATIVE / BASELINE / CORE_LIBRARY
    kernels = None if level == BASELINE else NATIVE / level / KERNELS_LIBRARY
    for library in (path, kernels):
        if library is None or library in _found:
            continue
        if not library.is_file():
            raise ImportError(describe_missing_library(library))
        _found.add(library)
    return CoreLibrary(path, kernels, level, tuple(_buildinfo.LEVELS), cpu)
