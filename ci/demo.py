"""The whole path on one machine: build, check, release, serve, install, explain, train.

Everything happens in `.dev/demo`, with the commands that a maintainer and a user would type; each
is printed before it runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

from static_site import served

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "horovod-variants"
TORCH = "torch==2.13.0"
NUMPY = "numpy>=1.24"


class _Steps:
    """Prints numbered headings and, at the end, what took how long."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._started = time.monotonic()
        self._began = self._started
        self._titles: list[tuple[str, float]] = []
        self._title = ""

    def begin(self, title: str) -> None:
        self._close()
        self._title = title
        number = len(self._titles) + 1
        print(f"\n=== {number}/{self._total}  {title}", flush=True)

    def finish(self) -> None:
        self._close()
        print("\n=== done")
        for title, seconds in self._titles:
            print(f"{seconds:7.1f} s  {title}")
        print(f"{time.monotonic() - self._started:7.1f} s  in all", flush=True)

    def _close(self) -> None:
        now = time.monotonic()
        if self._title:
            self._titles.append((self._title, now - self._began))
        self._began = now


def _run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    words = [str(word) for word in command]
    print("$ " + shlex.join(_short(word) for word in words), flush=True)
    done = subprocess.run(words, check=False, env=env, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"demo: error: the command above ended with exit code {done.returncode}")


def _short(word: str) -> str:
    """A path as a reader in the project's folder would write it."""
    return word.replace(f"{ROOT}{os.sep}", "")


def _make_release(work: Path, steps: _Steps) -> Path:
    """Builds, checks and indexes the release.

    Returns:
        The folder to serve.
    """
    release, site = work / "release", work / "site"
    variantwheel = Path(sys.executable).with_name("variantwheel")
    steps.begin("build one wheel for each variant of this machine, from source")
    _run(variantwheel, "matrix", "--project", ROOT)
    _run(
        variantwheel,
        "build",
        "--all",
        "--machine",
        os.uname().machine,
        "--pythons",
        "available",
        "--project",
        ROOT,
        "-o",
        release,
    )
    # What horovod-variants requires: its selector, which is released beside it, and cloudpickle.
    _run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "-w",
        release,
        ROOT / "selector",
        "cloudpickle",
    )
    steps.begin("check them, and run them on two ranks")
    wheels = sorted(release.glob("horovod_variants-*.whl"))
    _run(variantwheel, "check", "--run", "--pythons", "available", "--project", ROOT, *wheels)
    steps.begin("make the release: selector sdist and index")
    _run(variantwheel, "sdist", release, "--project", ROOT, "-o", release)
    _run(variantwheel, "index", release, "-o", site)
    return site


def _stock_environment(work: Path) -> tuple[Path, dict[str, str]]:
    """A fresh virtual environment with its own pip, and an environment without pip settings."""
    environment = work / "env"
    venv.create(environment, clear=True, with_pip=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))
    }
    bin_folder = environment / "bin"
    kept |= {"PATH": f"{bin_folder}{os.pathsep}{kept['PATH']}", "VIRTUAL_ENV": str(environment)}
    stock = kept | {
        "PIP_CONFIG_FILE": os.devnull,  # nothing but the index URL below
        "PIP_CACHE_DIR": str(work / "pip-cache"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return bin_folder, stock


def _wants_torch(arguments: argparse.Namespace) -> bool:
    if arguments.torch or arguments.numpy:
        return bool(arguments.torch)
    return importlib.util.find_spec("torch") is not None


def main(words: list[str]) -> int:
    """Runs the demo.

    Args:
        words: the command line, without the program's name.

    Returns:
        0; a failing step ends the program with 1.
    """
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--torch", action="store_true", help=f"install {TORCH} and train with it")
    which.add_argument("--numpy", action="store_true", help="train on NumPy arrays (the default)")
    parser.add_argument(
        "--work", type=Path, default=ROOT / ".dev" / "demo", help="folder to work in"
    )
    arguments = parser.parse_args(words)

    work: Path = arguments.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    steps = _Steps(total=7)
    site = _make_release(work, steps)
    with served(site) as address:
        index = f"{address}/simple/"
        steps.begin("install it with stock pip in a fresh virtual environment")
        bin_folder, stock = _stock_environment(work)
        _run(
            bin_folder / "python", "-m", "pip", "install", "--index-url", index, PROJECT, env=stock
        )
        steps.begin("what was chosen, and why not the others")
        _run(bin_folder / "variantwheel", "explain", PROJECT, "--index", index, env=stock)
        _run(bin_folder / "variantwheel", "verify", PROJECT, env=stock)
    _run(bin_folder / "horovodrun", "--check-build", env=stock)
    torch = _wants_torch(arguments)
    steps.begin(f"install {TORCH if torch else NUMPY} for the example")
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    _run(
        bin_folder / "python", "-m", "pip", "install", "--quiet", TORCH if torch else NUMPY,
        env=usual,
    )  # fmt: skip
    steps.begin("train on two ranks")
    example = ROOT / "examples" / ("torch_mlp.py" if torch else "numpy_mlp.py")
    _run(bin_folder / "horovodrun", "-np", "2", bin_folder / "python", example, env=stock, cwd=work)
    steps.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
