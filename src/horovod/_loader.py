"""Loads the native module and picks the core library that this CPU can execute."""

import sysconfig
from dataclasses import dataclass
from pathlib import Path

from horovod._levels import choose_level, describe_misfit, describe_missing_module

NATIVE = Path(__file__).parent / "_native"
CORE_LIBRARY = "libhorovod_core.so"

try:
    from horovod._native import _bindings, _buildinfo
except ImportError as error:
    raise ImportError(
        describe_missing_module(NATIVE, sysconfig.get_config_var("EXT_SUFFIX"), str(error))
    ) from error

__all__ = ["CoreLibrary", "_bindings", "select_core"]


@dataclass(frozen=True)
class CoreLibrary:
    """The core library to open, and how it came to be chosen.

    Attributes:
        path: the shared library.
        level: the CPU level that it was compiled for.
        levels: all levels in this wheel, lowest first.
        cpu: the level that this CPU supports.
    """

    path: Path
    level: str
    levels: tuple[str, ...]
    cpu: str

    @property
    def fits(self) -> bool:
        """Whether the library that runs is the best one in the wheel."""
        return self.level == self.levels[-1]

    def misfit(self) -> str:
        """What to tell the user when it does not fit."""
        return describe_misfit(self.levels, self.level, self.cpu)


def select_core() -> CoreLibrary:
    """Compares the wheel's levels with this CPU.

    Raises:
        ImportError: no level runs here, or the chosen library is missing.
    """
    cpu = _bindings.cpu_level()
    level = choose_level(_buildinfo.LEVELS, cpu)
    path = NATIVE / level / CORE_LIBRARY
    if not path.is_file():
        raise ImportError(
            describe_missing_module(
                NATIVE, sysconfig.get_config_var("EXT_SUFFIX"), f"{path} is missing"
            )
        )
    return CoreLibrary(path, level, tuple(_buildinfo.LEVELS), cpu)
