"""Local conda channels: a stand-in for conda-forge, and those with this project's packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from integration.environments import ROOT, Environment, plain_variables

WHOLE = os.environ.get("CONDA_TESTS") == "whole"
BUILD_TIMEOUT = 1800  # for several packages, on a busy machine
CACHE = ROOT / "build" / "conda-cache"
WHEELS = ROOT / "build" / "conda-wheels"  # unpacked NVRTCs and MPIs
BASELINE = {"CONDA_OVERRIDE_ARCHSPEC": "x86_64"}
BUILT = tuple(
    f"nompi_{hardware}" for hardware in ("cpu", "x86_64_v3", "cuda11", "cuda12", "cuda13", "rocm")
)
"""The builds with content in the whole session; the quick one has the first."""


@dataclass(frozen=True)
class CondaChannels:
    """A folder of channels, as a channel alias names it.

    Attributes:
        folder: Holds `conda-forge` (the stand-in), `horovod-variants` (our own channel, with
            everything) and `feedstock` (what conda-forge would have of this project).
        real: Beginnings of the build strings of packages with content; all others have none.
    """

    folder: Path
    real: tuple[str, ...]

    @property
    def alias(self) -> str:
        return f"{self.folder.as_uri()}/"

    def packages(self, pattern: str) -> list[Path]:
        return sorted((self.folder / "horovod-variants").glob(f"*/{pattern}"))

    @cached_property
    def real_packages(self) -> list[Path]:
        """The packages with content, the selector's included."""
        found = self.packages("variantwheel-selector-*.conda")
        for build in self.real:
            found += self.packages(f"horovod-variants-[0-9]*-{build}_*.conda")
        return [file for file in found if "aarch64" not in file.parent.name]

    def solve(
        self, channel: str, questions: Sequence[Mapping[str, object]]
    ) -> list[dict[str, object]]:
        """Asks the solver what it would install; see ci/conda_client.py."""
        text = run_tool(
            "conda_client.py", "solve", self.folder / channel, self.folder / "conda-forge",
            text=json.dumps(questions),
        )  # fmt: skip
        answers = json.loads(text)
        assert isinstance(answers, list)
        return answers


def run_tool(
    script: str,
    *words: str | Path,
    expect: int = 0,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """Runs one of ci/conda_*.py in a process of its own; gives what it printed."""
    words_ = [sys.executable, str(ROOT / "ci" / script), *map(str, words)]
    done = subprocess.run(
        words_,
        check=False,
        input=text or "",
        text=True,
        capture_output=True,
        timeout=BUILD_TIMEOUT,
        env={
            **os.environ,
            "CONDA_OVERRIDE_CUDA": "",
            "RATTLER_CACHE_DIR": str(CACHE),
            **(env or {}),
        },
    )
    if done.returncode != expect:
        pytest.fail(f"{words_} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    assert "Traceback" not in done.stderr
    return done.stdout + (done.stderr if expect else "")


@pytest.fixture(scope="session")
def conda_channels(tmp_path_factory: pytest.TempPathFactory) -> CondaChannels:
    """Builds the channels: packages with content for this machine, all others without."""
    kept = os.environ.get("CONDA_CHANNELS")  # while tests are written: an earlier run's folder
    folder = Path(kept).resolve() if kept else tmp_path_factory.mktemp("channels")
    bootstrap, own = folder / "conda-forge", folder / "horovod-variants"
    real = BUILT if WHOLE else BUILT[:1]
    if own.is_dir():
        return CondaChannels(folder, real)
    wheels = ["--wheels", str(WHEELS)] if WHOLE else []
    run_tool("conda_bootstrap.py", bootstrap, *wheels)
    made = ",".join(real)
    # As a CI job without a GPU does: the tests of CUDA packages could not be installed otherwise.
    run_tool(
        "conda_packages.py", "build", own, bootstrap, "--test", "--noarch", "--only", made,
        env={"CONDA_OVERRIDE_CUDA": "13.0"},
    )  # fmt: skip
    both = ["--subdir", "linux-64", "--subdir", "linux-aarch64"]
    run_tool("conda_packages.py", "build", own, bootstrap, "--metadata", "--made", made, *both)
    feedstock: list[str | Path] = [
        "build",
        folder / "feedstock",
        bootstrap,
        "--metadata",
        "--conda-forge",
    ]
    run_tool("conda_packages.py", *feedstock, *both)
    (selector,) = own.glob("noarch/variantwheel-selector-*.conda")
    (folder / "feedstock" / "noarch" / selector.name).write_bytes(selector.read_bytes())
    run_tool("conda_packages.py", "index", folder / "feedstock")
    return CondaChannels(folder, real)


def as_environment(prefix: Path) -> Environment:
    """An activated environment: what matters of activation is PATH and CONDA_PREFIX."""
    variables = plain_variables() | {
        "PATH": f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CONDA_PREFIX": str(prefix),
    }
    return Environment(prefix, variables)


def create(
    channels: CondaChannels, prefix: Path, machine: Mapping[str, str], *words: str | Path
) -> Environment:
    """Creates the environment of the unchanged environment.yml, for a stated machine."""
    run_tool(
        "conda_client.py", "create", ROOT / "environment.yml", prefix, "--channel-alias",
        channels.alias, *words, env=machine,
    )  # fmt: skip
    return as_environment(prefix)


@pytest.fixture(scope="session")
def conda_baseline(
    conda_channels: CondaChannels, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Environment, Path]:
    """An environment for a machine of the baseline, and the lock that was written with it."""
    folder = tmp_path_factory.mktemp("conda")
    lock = folder / "environment.lock"
    environment = create(conda_channels, folder / "env", BASELINE, "--write-lock", lock)
    return environment, lock


def read_yaml(name: str) -> Any:
    """Reads a YAML file of the repository."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - only the conda session has it

    return YAML(typ="safe").load((ROOT / name).read_text(encoding="utf-8"))
