"""Stands in for what conda-forge cross-compiles to AArch64 with, and for the machine that tests it.

zig takes the place of the compiler, this machine's Python that of `cross-python`, and Debian's
Python on an emulated CPU that of the `python` package (see `emulated_machine.py`).
"""

from __future__ import annotations

import shlex
from pathlib import Path

from conda_channel import PYTHON, SITE
from emulated_machine import EmulatedMachine

from variantwheel.checks.environment import python_of

CROSS = "linux-aarch64"
OLDEST, GUARDED = "cortex-a57", "neoverse-v1"
"""CPU models of qemu: for every environment, and for those with the guard for newer CPUs."""
CROSS_FOLDER = "share/cross-python"
_GUARD = "_aarch64-version-level"
_SYSCONFIG_DATA = "_sysconfigdata__aarch64-linux-gnu"
_PYTHON_SCRIPT = """\
#!/bin/sh
prefix=$(dirname "$(dirname "$0")")
cpu={oldest}
for record in "$prefix"/conda-meta/{guard}-*.json; do
  if [ -e "$record" ]; then cpu={guarded}; fi
done
# -0 keeps the name, so that sys.executable, and with it every child, is this script again.
exec {emulator} -L {root} -cpu "$cpu" -0 "$0" {python} "$@"
"""
_CROSS_PYTHON = """\
export _PYTHON_HOST_PLATFORM={subdir}
export _PYTHON_SYSCONFIGDATA_NAME={data}
export PYTHONPATH="$PREFIX/{site}:$BUILD_PREFIX/{folder}"
export PIP_PREFIX="$PREFIX"
for name in python python3 python{version}; do
  rm -f "$PREFIX/bin/$name"
  printf '#!/bin/sh\\nexec "%s" "$@"\\n' "$BUILD_PREFIX/bin/python" > "$PREFIX/bin/$name"
  chmod +x "$PREFIX/bin/$name"
done
"""
_COMPILER = """\
export CMAKE_ARGS="-DCMAKE_TOOLCHAIN_FILE=$SRC_DIR/cmake/zig.cmake \
-DHVD_ZIG_TARGET=aarch64-linux-gnu.{glibc} -DHVD_ZIG_PROGRAM={zig}"
export ZIG_GLOBAL_CACHE_DIR={cache}
# As conda-forge's compilers have it; rattler-build can shorten such a path, but not add one.
export LDFLAGS="-Wl,-rpath,$PREFIX/lib"
unset CXX
"""


def emulated_python(machine: EmulatedMachine) -> str:
    """The text of a `bin/python` that runs on the CPU that its environment is guarded for.

    Raises:
        SystemExit: The machine's Python is of another version than this one.
    """
    python = python_of(machine.root)
    if python.name != f"python{PYTHON}":
        raise SystemExit(
            f"conda: error: AArch64 packages are tested by {python.name} of Debian, but built by "
            f"Python {PYTHON} here; run this by {python.name}"
        )
    return _PYTHON_SCRIPT.format(
        oldest=OLDEST, guarded=GUARDED, guard=_GUARD, emulator=shlex.quote(str(machine.emulator)),
        root=shlex.quote(str(machine.root)), python=shlex.quote(str(python)),
    )  # fmt: skip


def activate_cross_python() -> str:
    """What makes the build's Python one of AArch64's, as `cross-python` does by crossenv."""
    return _CROSS_PYTHON.format(
        subdir=CROSS, data=_SYSCONFIG_DATA, folder=CROSS_FOLDER, site=SITE, version=PYTHON
    )


def sysconfig_data(machine: EmulatedMachine) -> Path:
    """The file in which the machine's Python says how it was built: names of modules among it."""
    return machine.root / "usr" / "lib" / f"python{PYTHON}" / f"{_SYSCONFIG_DATA}.py"


def activate_compiler(zig: Path, glibc: str) -> str:
    """What makes CMake compile for AArch64.

    Args:
        zig: The program.
        glibc: The C library's version, as the sysroot has it.
    """
    cache = Path.home() / ".cache" / "zig"
    return _COMPILER.format(glibc=glibc, zig=shlex.quote(str(zig)), cache=shlex.quote(str(cache)))
