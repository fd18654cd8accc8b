"""CPython without a GIL, compiled from Debian's source package: no package holds one.

    python ci/free_threaded_python.py FOLDER [VERSION]        prints the interpreter

Needs a C compiler, make, and headers of libffi, OpenSSL and zlib. Takes some minutes. Nothing is
installed on this machine.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from debian_packages import PackagesError, source_archive
from quiet_command import CommandFailedError, run

# Not every mirror of Debian's has the sources of 3.14.
_SUITES = {"3.13t": "trixie", "3.14t": "forky"}
_VERSION = "3.13t"
_COMPILATION = 3600  # seconds, on a slow machine
# Neither profile-guided nor for its own tests: it is here to run ours.
_CONFIGURE = (
    "--disable-gil",
    "--disable-test-modules",
    "--with-ensurepip=install",
    "OPT=-O2 -DNDEBUG",
)
_NEEDED = {"ctypes": "libffi-dev", "ssl": "libssl-dev", "zlib": "zlib1g-dev"}


class MissingToolError(Exception):
    """Something to compile with, or for, is not installed; the text says what to do."""


def interpreter(folder: Path, version: str) -> Path:
    """Return the interpreter, compiled if need be.

    Args:
        folder: Where sources and interpreter lie.
        version: Such as `3.13t`.

    Raises:
        PackagesError: The source package cannot be had.
        MissingToolError: A tool or a library is missing.
        CommandFailedError: It could not be compiled.
    """
    place = folder / version
    program = place / "bin" / f"python{version}"
    done = folder / f"{version}.done"
    if not done.is_file():
        if shutil.which("cc") is None or shutil.which("make") is None:
            raise MissingToolError("there is no C compiler, or no make: install gcc and make")
        source = _unpacked_source(folder, version)
        run("./configure", f"--prefix={place}", *_CONFIGURE, cwd=source)
        # Whoever is at work beside this goes first.
        compile_all = ("nice", "-n", "10", "make", f"-j{len(os.sched_getaffinity(0))}")
        run(*compile_all, cwd=source, seconds=_COMPILATION)
        run("make", "altinstall", cwd=source)
        _require_modules(program)
        done.touch()
    return program


def _unpacked_source(folder: Path, version: str) -> Path:
    package = f"python{version.removesuffix('t')}"
    unpacked = folder / f"sources_of_{package.replace('.', '_')}"
    archive = source_archive(_SUITES[version], package, unpacked)
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return source


def _require_modules(program: Path) -> None:
    """Refuse an interpreter without modules that are left out where their libraries are absent."""
    try:
        run(str(program), "-c", f"import {', '.join(_NEEDED)}", cwd=program.parent)
    except CommandFailedError as error:
        wanted = " and ".join(f"{package} ({module})" for module, package in _NEEDED.items())
        raise MissingToolError(
            f"{program} lacks modules: install {wanted}, and run this again\n{error}"
        ) from None


def main(words: Sequence[str]) -> int:
    folder, version = Path(words[0]).resolve(), words[1] if len(words) > 1 else _VERSION
    if version not in _SUITES:
        known = ", ".join(_SUITES)
        print(f"free_threaded_python: error: {version}: known are {known}", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    try:
        print(interpreter(folder, version))
    except (PackagesError, MissingToolError, CommandFailedError) as error:
        print(f"free_threaded_python: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
