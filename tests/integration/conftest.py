"""A served release of this project, and virtual environments to install it into."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "horovod-variants"
BUILD_TIMEOUT = 900
STEP_TIMEOUT = 300


def run(
    *command: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    expect: int | None = 0,
    timeout: float = STEP_TIMEOUT,
) -> subprocess.CompletedProcess[str]:
    """Runs a command; its output is shown when the exit code is not the expected one."""
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        env=env,
        cwd=cwd,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
    )
    if expect is not None and done.returncode != expect:
        pytest.fail(f"{command} ended with {done.returncode}, not {expect}:\n{done.stdout}")
    return done


@dataclass(frozen=True)
class Release:
    """What a maintainer made: the folder with the files, and the site that is served."""

    folder: Path
    site: Path
    index_url: str

    @property
    def sdist(self) -> Path:
        (found,) = self.folder.glob("horovod_variants-*.tar.gz")
        return found

    def wheel(self, label: str) -> Path:
        (found,) = self.folder.glob(f"horovod_variants-*-{label}.whl")
        return found


@dataclass(frozen=True)
class Environment:
    """A virtual environment, as a user has one: nothing of this machine's pip or uv settings."""

    folder: Path
    variables: dict[str, str] = field(repr=False)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(
        self, *command: str | Path, expect: int | None = 0, cwd: Path | None = None, **env: str
    ) -> str:
        """Runs a program of this environment; gives what it printed, both streams."""
        program = self.folder / "bin" / str(command[0])
        words = [program if program.exists() else command[0], *command[1:]]
        return run(*words, env=self.variables | env, cwd=cwd, expect=expect).stdout

    def pip_install(self, *arguments: str | Path, expect: int | None = 0, **env: str) -> str:
        return self.run("python", "-m", "pip", "install", *arguments, expect=expect, **env)

    def dist_info(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages/horovod_variants-*.dist-info")
        return found

    def decision(self) -> dict[str, object]:
        text = (self.dist_info() / "variant-decision.json").read_text(encoding="utf-8")
        decision = json.loads(text)
        assert isinstance(decision, dict)
        return decision

    def installed_label(self) -> str:
        """The label that the installed variant.json names."""
        found = json.loads((self.dist_info() / "variant.json").read_text(encoding="utf-8"))
        (label,) = found["variants"]
        return str(label)


def _plain_variables() -> dict[str, str]:
    foreign = ("PIP_", "UV_", "VARIANTWHEEL_", "HOROVOD_", "_HOROVOD", "NOX_", "VIRTUAL_ENV", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """Builds all variants of this machine from source and serves the release on loopback."""
    folder, site = tmp_path_factory.mktemp("release"), tmp_path_factory.mktemp("site")
    variantwheel = Path(sys.executable).with_name("variantwheel")
    machine = os.uname().machine
    run(
        variantwheel, "build", "--all", "--machine", machine, "--project", ROOT, "-o", folder,
        timeout=BUILD_TIMEOUT,
    )  # fmt: skip
    run(variantwheel, "sdist", folder, "--project", ROOT, "-o", folder)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT / "selector")
    run(variantwheel, "index", folder, "-o", site)

    class _QuietHandler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002: the base class's name
            pass

    handler = functools.partial(_QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Release(folder, site, f"http://127.0.0.1:{server.server_address[1]}/simple/")
        server.shutdown()


@pytest.fixture
def new_environment(tmp_path: Path) -> Callable[[], Environment]:
    """Makes fresh virtual environments whose pip and uv know no settings and no cache of this machine."""

    def make() -> Environment:
        folder = tmp_path / "env"
        venv.create(folder, with_pip=True)
        variables = _plain_variables() | {
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
        for name in made.folder.glob("bin/python*"):
            name.unlink()
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
