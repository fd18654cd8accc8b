"""Builds a throw-away conda channel out of this machine, to build the unchanged recipes against.

    python ci/conda_bootstrap.py CHANNEL [--wheels FOLDER [--emulated FOLDER]]

It stands in for conda-forge where no conda channel can be reached. Python is this interpreter (a
conda prefix becomes a virtual environment of it); compilers, CMake and Ninja are those of this
machine; Python packages are copies of, or links to, what is installed here; NVRTC,
zig and MPIs come from PyPI, where a folder to keep them in is named, and are empty otherwise;
so are Python and compilers for AArch64, but for the folder of an emulated machine (conda_cross.py);
metapackages are as empty as the real ones. Nothing of it may be published, and every build string
says so. What it cannot show: conda-forge's compilers, sysroot and binaries.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import archspec.cpu  # type: ignore[import-untyped,unused-ignore]
import rattler
from conda_channel import BUILD, HERE, PYTHON, SITE, SUBDIRS, Channel
from conda_cross import (
    CROSS,
    CROSS_FOLDER,
    activate_compiler,
    activate_cross_python,
    emulated_python,
    sysconfig_data,
)
from conda_wheels import add_mpi, add_nvrtc, add_zig, unpacked_zig
from debian_packages import PackagesError
from emulated_machine import EmulatedMachine, prepare
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ABI = f"cp{PYTHON.replace('.', '')}"
# What the recipes need to build with and to run, and what that needs.
COPIED = ("pip", "packaging", "scikit-build-core", "pybind11", "hatchling", "cloudpickle")
CUDA_VERSIONS = ("11.8", "12.4", "12.9", "13.0")
PYTORCHES = {
    "cpu": (),
    "cuda129": ("__cuda", "cuda-version >=12.9,<13"),
    "cuda130": ("__cuda", "cuda-version >=13.0,<14"),
}
NEWEST_CUDA = "cuda130"
_ACTIVATE = Path("etc/conda/activate.d")
# conda-forge's compilers come with these; what they ask of the CPU, a variant must not contain.
CONDA_FORGE_FLAGS = {
    "CPPFLAGS": "-DNDEBUG -D_FORTIFY_SOURCE=2 -O2 -isystem $PREFIX/include",
    "CXXFLAGS": "-fvisibility-inlines-hidden -fmessage-length=0 -march=nocona -mtune=haswell "
    "-ftree-vectorize -fPIC -fstack-protector-strong -fno-plt -O2 -ffunction-sections -pipe",
    "LDFLAGS": "-Wl,-O2 -Wl,--sort-common -Wl,--as-needed -Wl,-z,relro -Wl,-z,now "
    "-Wl,--disable-new-dtags -Wl,--gc-sections -Wl,-rpath,$PREFIX/lib -L$PREFIX/lib",
}
# The build environments of different packages lie beside different, equally named source trees, and
# each has a home directory of its own.
CCACHE = {
    "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
    "CCACHE_DIR": os.environ.get("CCACHE_DIR") or str(Path.home() / ".cache" / "ccache"),
    "CCACHE_BASEDIR": "${SRC_DIR%/*}",
    "CCACHE_NOHASHDIR": "1",
}


def add_distribution(
    channel: Channel,
    work: Path,
    name: str,
    conda_name: str,
    *,
    link: bool,
    build: str = BUILD,
    number: int = 0,
    depends: Sequence[str] = (),
) -> None:
    """Adds an installed Python distribution.

    Args:
        channel: Where to.
        work: For temporary files.
        name: The distribution.
        conda_name: Its name as a conda package.
        link: Whether its folders are linked to, instead of copied.
        build: The build string.
        number: The build number.
        depends: What the package needs that the distribution does not name.
    """
    distribution = importlib.metadata.distribution(name)
    tree = work / f"copy-{name}"
    for path in distribution.files or ():
        inside = Path(path.parts[0]) if link else Path(path)
        target = tree / SITE / inside
        if path.parts[0] == ".." or path.suffix == ".pyc" or target.is_symlink():
            continue
        source = Path(str(distribution.locate_file(inside)))
        target.parent.mkdir(parents=True, exist_ok=True)
        if link:
            target.symlink_to(source.resolve())
        else:
            shutil.copyfile(source, target)
    version = distribution.version.partition("+")[0]
    channel.add(
        conda_name, version, build,
        # A copy is of pure Python, and of use to other platforms' solvers.
        subdir=HERE if link else "noarch",
        depends=[f"python {PYTHON}.*", *requirements(name), *depends], files=tree, number=number,
    )  # fmt: skip


def requirements(name: str) -> list[str]:
    """The names of what an installed distribution requires here, without extras."""
    found = [Requirement(text) for text in importlib.metadata.requires(name) or ()]
    wanted = [item for item in found if item.marker is None or item.marker.evaluate({"extra": ""})]
    return sorted({canonicalize_name(item.name) for item in wanted})


def with_requirements(names: Sequence[str]) -> list[str]:
    """Some installed distributions and all that they require, directly or indirectly."""
    found: list[str] = []
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting += requirements(name)
    return sorted(found)


def add_python(channel: Channel, work: Path, emulated: EmulatedMachine | None) -> None:
    """Adds Python with conda-forge's run_exports; a prefix is a virtual environment of this one.

    Args:
        channel: Where to.
        work: For temporary files.
        emulated: Whose Python is that of AArch64; none for an empty package.
    """
    executable = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    version = platform.python_version()
    link = f"ln -s {executable} $PREFIX/bin/python{PYTHON}"
    scripts = {HERE: _environment_script(link, executable.parent, version)}
    if emulated is not None:
        file = work / "python-of-aarch64"
        _write(file, emulated_python(emulated), mode=0o755)
        # Where Debian has it, below the emulated machine's root.
        copy = f"cp {file} $PREFIX/bin/python{PYTHON}"
        scripts[CROSS] = _environment_script(copy, Path("/usr/bin"), version)
    abi = f"python_abi {PYTHON}.* *_{ABI}"
    channel.add("python_abi", PYTHON, f"0_hostboot_{ABI}", constrains=[f"python {PYTHON}.*"])
    for subdir in SUBDIRS:
        channel.build(
            "python", version, "0_hostboot_cpython", {"noarch": ["python"], "weak": [abi]},
            subdir=subdir, script=scripts.get(subdir, []), depends=[abi],
        )  # fmt: skip
    tree = None
    if emulated is not None:
        tree = work / "cross-python"
        _write(tree / _ACTIVATE / "activate-cross-python.sh", activate_cross_python())
        data = sysconfig_data(emulated)
        _write(tree / CROSS_FOLDER / data.name, data.read_text(encoding="utf-8"))
    channel.add(f"cross-python_{CROSS}", PYTHON, subdir=HERE, files=tree)


def _environment_script(command: str, home: Path, version: str) -> list[str]:
    """The commands that make a prefix a virtual environment (PEP 405).

    Args:
        command: Puts `bin/pythonX.Y` there.
        home: Where that Python's own program lies.
        version: Of Python.
    """
    settings = (f"home = {home}", f"version = {version}", "include-system-site-packages = false")
    configuration = "\\n".join((*settings, ""))
    return [
        f"mkdir -p $PREFIX/bin $PREFIX/{SITE}",
        command,
        f"ln -s python{PYTHON} $PREFIX/bin/python3; ln -s python{PYTHON} $PREFIX/bin/python",
        f"printf '{configuration}' > $PREFIX/pyvenv.cfg",
        f"touch $PREFIX/{SITE}/.keep",
    ]


def add_toolchain(channel: Channel, work: Path, zig: Path | None) -> None:
    """Adds this machine's compilers, CMake and Ninja, and a sysroot for its C library.

    Args:
        channel: Where to.
        work: For temporary files.
        zig: The program that compiles for AArch64; none where nothing does.
    """
    glibc = platform.libc_ver()[1]
    for name, variable, program in (("gcc", "CC", "gcc"), ("gxx", "CXX", "g++")):
        script = _ACTIVATE / f"activate-{name}.sh"
        found = shutil.which(program)
        if found is None:
            raise SystemExit(f"conda: error: {program} is not installed")
        for subdir in SUBDIRS:
            tree = work / f"{name}-{subdir}"
            text = f"export {variable}={found}\n"
            if name == "gxx" and subdir == "linux-64":
                text += _exports({key: f'"{flags}"' for key, flags in CONDA_FORGE_FLAGS.items()})
            if name == "gxx" and subdir == CROSS and zig is not None:
                text = activate_compiler(zig, glibc)
            if name == "gxx" and shutil.which("ccache"):
                text += _exports(CCACHE)  # the same sources are compiled for every variant
            _write(tree / script, text)
            channel.add(f"{name}_{subdir}", "12.2", subdir=HERE, files=tree)
    for program in ("cmake", "ninja"):
        beside = Path(sys.executable).parent / program
        tree = work / program
        _write(tree / "bin" / program, f'#!/bin/sh\nexec "{beside}" "$@"\n', mode=0o755)
        channel.add(program, importlib.metadata.version(program), subdir=HERE, files=tree)
    for subdir in SUBDIRS:
        channel.build(f"sysroot_{subdir}", glibc, BUILD, {"strong": [f"__glibc >={glibc},<3.0.a0"]})


def _exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={value}\n" for name, value in variables.items())


def add_levels(channel: Channel) -> None:
    """Adds the levels of x86-64: one guard for each of archspec's names, as old clients need."""
    levels = {"x86_64": 1, "x86_64_v2": 2, "x86_64_v3": 3, "x86_64_v4": 4}
    for name, target in archspec.cpu.TARGETS.items():
        if target.family.name == "x86_64":
            kin = (name, *(parent.name for parent in target.ancestors))
            level = max(levels.get(item, 1) for item in kin)
            channel.add(
                "_x86_64-microarch-level",
                str(level),
                f"0_{name}",
                depends=[f"__archspec 1.* {name}"],
            )
    folder = "$PREFIX/etc/conda/activate.d"
    flags = "".join(
        f'export {name}="${name} -march=x86-64-v3"\\n' for name in ("CFLAGS", "CXXFLAGS")
    )
    channel.build(
        "x86_64-microarch-level", "3", "0_level3", {"strong": ["_x86_64-microarch-level >=3"]},
        script=[f"mkdir -p {folder}", f"printf '{flags}' > {folder}/~activate-x86_64-level.sh"],
    )  # fmt: skip


def add_gpu_libraries(channel: Channel) -> None:
    """Adds what CUDA builds depend on: versions that constrain the driver, and an empty NCCL."""
    for version in CUDA_VERSIONS:
        major = version.partition(".")[0]
        channel.add("cuda-version", version, constrains=[f"__cuda >={major}"])
    for subdir in SUBDIRS:
        channel.add("nccl", "2.28", subdir=subdir)


def add_distributions(channel: Channel, work: Path) -> None:
    """Adds build tools as copies, and what PyTorch needs as links; see `add_pytorch`."""
    copied = with_requirements(COPIED)
    for name in copied:
        add_distribution(channel, work, name, name, link=False)
    if _installed("torch"):
        for name in with_requirements(["torch"]):
            if name not in copied and name != "torch":
                add_distribution(channel, work, name, name, link=True)
    add_pytorch(channel, work)
    channel.add("horovod", "0.28.1")


def add_pytorch(channel: Channel, work: Path) -> None:
    """Adds `pytorch` for the CPU and for each CUDA, as links, or empty where it is not installed.

    conda-forge's builds are told apart by the same beginnings and preferred by the same number. An
    older PyTorch, which is empty, has no build for the newest CUDA.
    """
    for word, needs in PYTORCHES.items():
        build, number = f"{word}_hostboot", 200 if needs else 0
        if word != NEWEST_CUDA:
            channel.add("pytorch", "2.0", build, subdir=HERE, number=number, depends=needs)
        if _installed("torch"):
            add_distribution(
                channel, work, "torch", "pytorch", link=True, build=build, number=number,
                depends=needs,
            )  # fmt: skip
        else:
            channel.add("pytorch", "2.1", build, subdir=HERE, number=number, depends=needs)


def _installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)


def main(words: Sequence[str]) -> int:
    """Builds the channel.

    Args:
        words: The command line, without the program's name.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("channel", type=Path)
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER", help="where wheels of NVRTC, zig and MPIs are kept"
    )
    parser.add_argument(
        "--emulated", type=Path, metavar="FOLDER",
        help="where the emulated AArch64 machine lies, or is unpacked to; needs --wheels, for zig",
    )  # fmt: skip
    arguments = parser.parse_args(words)
    if arguments.emulated and not arguments.wheels:
        parser.error("--emulated needs --wheels")
    emulated: EmulatedMachine | None = None
    try:
        if arguments.emulated and HERE != CROSS:
            emulated = prepare(arguments.emulated.resolve())
    except PackagesError as error:
        raise SystemExit(f"conda: error: {error}") from error
    kept: Path | None = arguments.wheels and arguments.wheels.resolve()
    folder: Path = arguments.channel.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="conda-bootstrap-") as name:
        work = Path(name)
        channel = Channel(folder, work)
        add_python(channel, work, emulated)
        add_toolchain(channel, work, unpacked_zig(kept) if emulated and kept else None)
        add_levels(channel)
        add_gpu_libraries(channel)
        add_nvrtc(channel, work, kept)
        add_zig(channel, work, kept)
        add_mpi(channel, kept)
        add_distributions(channel, work)
    shutil.rmtree(folder / "bld", ignore_errors=True)
    asyncio.run(rattler.index.index_fs(folder, write_zst=False, write_shards=False))
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # py-rattler 0.28 crashes now and then while the interpreter shuts down
