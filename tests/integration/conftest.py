"""A served release of this project, and virtual environments to install it into."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import shutil
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from static_site import served

from integration.conda_channels import conda_baseline, conda_channels
from integration.environments import ROOT, Environment, Release, plain_variables, run
from integration.many_variants import Home, ManyVariants, make_release, own_release

BUILD_TIMEOUT = 900


__all__ = ["conda_baseline", "conda_channels"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts first what takes a minute, which at the end one process would wait for alone."""
    items.sort(key=lambda item: "source_build" not in item.name)


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """Builds all variants of this machine from source and serves the release on loopback.

    With pytest's `-n`, one process builds it for all, and each serves it.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, site, made = shared / "release", shared / "release-site", shared / "release-made"
    with (shared / "release-lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make_release(folder, site)
            made.touch()
    with served(site) as address:
        yield Release(folder, site, f"{address}/simple/")


def _make_release(folder: Path, site: Path) -> None:
    variantwheel = Path(sys.executable).with_name("variantwheel")
    machine = os.uname().machine
    run(
        variantwheel, "build", "--all", "--machine", machine, "--pythons", "available",
        "--project", ROOT, "-o", folder,
        timeout=BUILD_TIMEOUT,
    )  # fmt: skip
    run(variantwheel, "sdist", folder, "--project", ROOT, "-o", folder)
    # What the release requires, so that its index is enough.
    required = (ROOT / "selector", f"cloudpickle=={importlib.metadata.version('cloudpickle')}")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, *required)
    run(variantwheel, "index", folder, "-o", site)


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyVariants]:
    """Serves a release with variants for every kind of hardware."""
    folder, site = tmp_path_factory.mktemp("many"), tmp_path_factory.mktemp("many-site")
    release = make_release(folder, tmp_path_factory.mktemp("many-work"))
    run(Path(sys.executable).with_name("variantwheel"), "index", folder, "-o", site)
    with served(site) as address:
        yield ManyVariants(folder, site, f"{address}/simple/", release)


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyVariants]:
    """Serves a release with this repository's own variants, in wheels without content."""
    folder, site = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("own-site")
    release = own_release(folder, tmp_path_factory.mktemp("own-work"))
    run(Path(sys.executable).with_name("variantwheel"), "index", folder, "-o", site)
    with served(site) as address:
        yield ManyVariants(folder, site, f"{address}/simple/", release)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(scope="session")
def create_with_pip(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Makes virtual environments as `python -m venv` does, with pip unpacked and compiled once."""
    first = tmp_path_factory.mktemp("with-pip") / "env"
    venv.create(first, with_pip=True, symlinks=True)
    packages = Path("lib", f"python3.{sys.version_info.minor}", "site-packages")

    def create(folder: Path) -> None:
        venv.create(folder, symlinks=True)
        shutil.copytree(first / packages, folder / packages, dirs_exist_ok=True)
        for script in first.glob("bin/pip*"):
            copy = folder / "bin" / script.name
            copy.write_text(script.read_text("utf-8").replace(str(first), str(folder)), "utf-8")
            copy.chmod(0o755)

    return create


@pytest.fixture
def new_environment(
    tmp_path: Path, create_with_pip: Callable[[Path], None]
) -> Callable[[], Environment]:
    """Makes fresh virtual environments; pip and uv know no settings and no cache in them."""

    def make() -> Environment:
        folder = tmp_path / "env"
        create_with_pip(folder)
        variables = plain_variables() | {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_CACHE_DIR": str(tmp_path / "pip-cache"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
            "UV_NO_CONFIG": "1",
        }
        return Environment(folder, variables)

    return make


@pytest.fixture
def environment(new_environment: Callable[[], Environment]) -> Environment:
    return new_environment()


@pytest.fixture
def emulated(new_environment: Callable[[], Environment]) -> Callable[[str], Environment]:
    """Makes an environment in which every Python process runs on an emulated CPU model."""
    qemu = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
    if qemu is None or os.uname().machine != "x86_64":
        pytest.skip("qemu-x86_64 (user-mode emulation) is not installed")

    def make(model: str) -> Environment:
        made = new_environment()
        real = made.python.resolve()
        for link in made.folder.glob("bin/python*"):
            link.unlink()
        # `-0` keeps argv[0], so that sys.executable, and with it every child, is this script again.
        made.python.write_text(f'#!/bin/sh\nexec {qemu} -cpu {model} -0 "$0" {real} "$@"\n')
        made.python.chmod(0o755)
        for name in ("python3", f"python3.{sys.version_info.minor}"):
            (made.folder / "bin" / name).symlink_to("python")
        return made

    return make


@pytest.fixture(scope="session")
def native_label() -> str:
    """The label that fits the machine that runs the tests, found without the code under test."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    wanted = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
    return "x86_64_v3" if wanted <= set(flags) else "null"


ALLREDUCE = """
import array
import horovod.array as hvd

hvd.init()
summed = hvd.allreduce(array.array("f", [1.0, 2.0, 4.0 * hvd.rank()]), op=hvd.Sum)
assert list(summed) == [2.0, 4.0, 4.0], list(summed)
print("allreduce fine on rank", hvd.rank(), "of", hvd.size())
"""


@pytest.fixture
def allreduce_script(tmp_path: Path) -> Path:
    """Two ranks sum three numbers without NumPy, which does not run on the oldest CPUs."""
    script = tmp_path / "allreduce.py"
    script.write_text(ALLREDUCE, encoding="utf-8")
    return script
