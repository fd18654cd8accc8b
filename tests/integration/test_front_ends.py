"""What people do with pip and uv besides installing, all against one served release."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.pylock import Pylock

from integration.environments import run
from integration.many_variants import PROJECT, UV, Home, ManyVariants

GPU = {
    "VARIANTWHEEL_ASSUME_CUDA": "13.0",
    "VARIANTWHEEL_ASSUME_SM": "9.0",
    "VARIANTWHEEL_ASSUME_CPU": "x86-64-v3",
}
CPU = {"VARIANTWHEEL_ASSUME_CUDA": "", "VARIANTWHEEL_ASSUME_CPU": "x86-64-v2"}
OLDEST_PIP = "pip==20.3.4"

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")


@pytest.fixture(scope="module")
def oldest_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oldest pip that is supported, from the user's usual index."""
    folder = tmp_path_factory.mktemp("oldest-pip")
    run(sys.executable, "-m", "pip", "install", "-q", "--target", folder, OLDEST_PIP)
    return folder


def digest(many: ManyVariants) -> str:
    return hashlib.sha256(many.sdist.read_bytes()).hexdigest()


def test_hashes_pin_everything(many: ManyVariants, home: Home, tmp_path: Path) -> None:
    wanted = tmp_path / "requirements.txt"
    wanted.write_text(f"{PROJECT}==1.0 --hash=sha256:{digest(many)}\n")
    options = ("install", "--require-hashes", "--index-url", many.index, "-r", wanted)
    home.pip("a", *options, env=GPU)
    home.uv("b", *options, env=GPU)
    assert (home.label("a"), home.label("b")) == ("cu13", "cu13")
    wanted.write_text(f"{PROJECT}==1.0 --hash=sha256:{'0' * 64}\n")
    assert "HASH" in home.pip("c", *options, "--no-cache-dir", expect=1, env=GPU)


def test_a_dry_run_looks_at_no_hardware(many: ManyVariants, home: Home) -> None:
    """No variant would fit, which nobody finds out."""
    nothing = {"VARIANTWHEEL_VARIANT": "rocm"} | CPU
    options = ("install", "--dry-run", "--index-url", many.index, PROJECT)
    assert "Would install tiny-native-1.0" in home.pip("a", *options, env=nothing)
    assert "Would install 1 package" in home.uv("a", *options, env=nothing)
    assert list(home.environment("a").glob("lib/python*/site-packages/tiny_native*")) == []


def test_a_download_installs_elsewhere(many: ManyVariants, home: Home, tmp_path: Path) -> None:
    home.pip("a", "download", "--index-url", many.index, "-d", tmp_path / "carried", PROJECT,
             env=GPU)  # fmt: skip
    (carried,) = (tmp_path / "carried").iterdir()
    assert carried.read_bytes() == many.sdist.read_bytes()
    closed = ("install", "--no-index", "--find-links", tmp_path / "carried", PROJECT)
    home.pip("b", *closed, env=CPU)
    assert home.label("b") == "x86_64_v2", "the target chooses, not the machine that downloaded"


def test_pip_lock_holds_on_every_machine(many: ManyVariants, home: Home, tmp_path: Path) -> None:
    lock = tmp_path / "pylock.toml"
    home.pip("a", "lock", "--index-url", many.index, "-o", lock, PROJECT, env=GPU)
    pylock = Pylock.from_dict(tomllib.loads(lock.read_text(encoding="utf-8")))
    (package,) = pylock.packages
    assert package.sdist is not None
    assert package.sdist.hashes["sha256"] == digest(many)
    home.pip("b", "install", "--no-cache-dir", "-r", lock, env=GPU)
    home.pip("c", "install", "--no-cache-dir", "-r", lock, env=CPU)
    assert (home.label("b"), home.label("c")) == ("cu13", "x86_64_v2")


def test_uv_lock_and_sync(many: ManyVariants, home: Home, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    minor = ".".join(map(str, sys.version_info[:2]))
    (project / "pyproject.toml").write_text(
        f'[project]\nname = "training"\nversion = "1"\nrequires-python = ">={minor}"\n'
        f'dependencies = ["{PROJECT}"]\n[[tool.uv.index]]\nurl = "{many.index}"\ndefault = true\n'
    )

    def uv(verb: str, machine: dict[str, str], *options: str) -> None:
        environment = home.variables(machine | {"UV_NO_CACHE": "1", "UV_PYTHON": sys.executable})
        run(UV, verb, *options, cwd=project, env=environment)

    def label() -> str:
        (site,) = project.glob(".venv/lib/python*/site-packages")
        found = re.search(r"'(.*)'", (site / "tiny_native/__init__.py").read_text())
        assert found is not None
        return found[1]

    uv("lock", GPU)
    locked = (project / "uv.lock").read_text(encoding="utf-8")
    assert f"sha256:{digest(many)}" in locked
    uv("sync", GPU, "--frozen")
    assert label() == "cu13"
    uv("sync", CPU, "--locked", "--reinstall")
    assert label() == "x86_64_v2"
    assert (project / "uv.lock").read_text(encoding="utf-8") == locked


def test_uv_pip_compile_universal(many: ManyVariants, home: Home, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{PROJECT}\n")
    compiled = tmp_path / "compiled.txt"
    run(UV, "pip", "compile", "--universal", "--generate-hashes", "--index-url", many.index,
        tmp_path / "in.txt", "-o", compiled,
        env=home.variables({"UV_NO_CONFIG": "1", "UV_PYTHON": sys.executable, **GPU}))  # fmt: skip
    assert f"--hash=sha256:{digest(many)}" in compiled.read_text(encoding="utf-8")
    options = ("install", "--require-hashes", "--index-url", many.index, "-r", compiled)
    home.pip("a", *options, env=CPU)
    assert home.label("a") == "x86_64_v2"


def test_the_oldest_and_the_newest_pip(
    many: ManyVariants, home: Home, oldest_pip: Path, tmp_path: Path
) -> None:
    environment = home.variables({"PYTHONPATH": str(oldest_pip), "PIP_NO_CACHE_DIR": "1", **GPU})
    python = home.environment("old") / "bin/python"
    told = run(python, "-m", "pip", "--version", env=environment).stdout
    assert told.startswith(OLDEST_PIP.replace("==", " "))
    # Without -W, its own use of pkg_resources and of distutils would be told as warnings.
    run(python, "-W", "ignore", "-m", "pip", "install", "--index-url", many.index, PROJECT,
        env=environment)  # fmt: skip
    assert home.label("old") == "cu13"
    newest = subprocess.run(
        [sys.executable, "-m", "pip", "--version"],
        check=True, capture_output=True, text=True, env=os.environ, timeout=60,
    ).stdout  # fmt: skip
    assert newest.startswith("pip 26.3 "), "the pinned one, which all other tests use"
