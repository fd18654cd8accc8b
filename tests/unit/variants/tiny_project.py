"""The small project in tests/packages, copied, built and spoiled for the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from variantwheel.wheel_archive import read_wheel
from variantwheel.wheel_writing import write_wheel

PACKAGE = Path(__file__).parents[2] / "packages" / "tiny_variants"
DIST_INFO = "tiny_variants-1.0.dist-info"
EPOCH = 1_700_000_000
STEP_TIMEOUT = 120


@dataclass(frozen=True)
class TinyRelease:
    """A copy of the project and the folder that its wheels were built into."""

    project: Path
    folder: Path

    def wheel(self, label: str) -> Path:
        (found,) = self.folder.glob(f"*-{label}.whl")
        return found


@dataclass(frozen=True)
class TinySite:
    """A release folder with its selector sdist, and the index of it."""

    release: Path
    site: Path


def copy_project(folder: Path) -> Path:
    target = folder / "tiny"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("build", "__pycache__"))
    return target


def variantwheel(*words: str | Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command as a maintainer does; its output is shown when it ends otherwise."""
    command = [str(Path(sys.executable).with_name("variantwheel")), *map(str, words)]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=STEP_TIMEOUT,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
    )
    assert done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def respoil(
    wheel: Path, folder: Path, changes: Mapping[str, bytes | None], name: str | None = None
) -> Path:
    """Writes a changed copy of a wheel with a RECORD that is right; None removes a file."""
    archive = read_wheel(wheel)
    files = {path: data for path, data in archive.files.items() if path not in changes}
    files |= {path: data for path, data in changes.items() if data is not None}
    folder.mkdir(exist_ok=True)
    written = write_wheel(replace(archive, files=files), folder, EPOCH)
    return written.rename(folder / name) if name else written


def tamper(wheel: Path, folder: Path, changes: Mapping[str, bytes | None]) -> Path:
    """Writes a copy of a wheel with other bytes in some files, or without, RECORD left as it is."""
    folder.mkdir(exist_ok=True)
    target = folder / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as output:
        for entry in source.infolist():
            data = changes.get(entry.filename, source.read(entry))
            if data is not None:
                output.writestr(entry, data)
    return target


def compile_library(folder: Path, source: str, *flags: str) -> bytes:
    """Compiles C (or C++, by the flag `-xc++`) into a shared library."""
    file, library = folder / "planted.c", folder / "planted.so"
    file.write_text(source, encoding="utf-8")
    language = [flag for flag in flags if flag.startswith("-x")]
    rest = [flag for flag in flags if flag not in language]
    # Libraries come after the file that needs them, or the linker drops them.
    command = ["cc", *language, "-shared", "-fPIC", "-O2", str(file), *rest, "-o", str(library)]
    subprocess.run(command, check=True, timeout=STEP_TIMEOUT, cwd=folder)
    return library.read_bytes()
