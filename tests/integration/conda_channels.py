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
BUILD_TIMEOUT = 3600  # for all packages of a platform, on a busy machine
CACHE = ROOT / "build" / "conda-cache"
WHEELS = ROOT / "build" / "conda-wheels"  # unpacked NVRTCs, zig and MPIs
EMULATED = ROOT / ".dev" / "aarch64"  # Debian's Python for AArch64, and the emulator for it
BASELINE = {"CONDA_OVERRIDE_ARCHSPEC": "x86_64"}
X86, ARM = "linux-64", "linux-aarch64"
BUILT: Mapping[str, tuple[str, ...]] = {
    ARM: ("nompi_cpu", "nompi_neoverse", "nompi_cuda12"),
    X86: (
        "nompi_cpu", "nompi_x86_64_v3", "nompi_cuda11", "nompi_cuda12", "nompi_cuda13",
        "nompi_rocm",
        # The part for MPI does not depend on the hardware.
        "mpi_openmpi_cpu", "mpi_openmpi_x86_64_v3", "mpi_mpich_cpu", "mpi_mpich_cuda12",
    ),
}  # fmt: skip
"""The builds with content in the whole session, by platform."""
BUILT_QUICKLY: Mapping[str, tuple[str, ...]] = {X86: ("nompi_cpu",)}
# As on CI jobs without a GPU: the tests of CUDA packages could not be installed otherwise. Tests of
# AArch64 run on an emulated Neoverse V1 where they are guarded for it (ci/conda_cross.py).
STATED = {"CONDA_OVERRIDE_CUDA": "13.0"}
STATED_BY_PLATFORM = {X86: STATED, ARM: STATED | {"CONDA_OVERRIDE_ARCHSPEC": "neoverse_v1"}}
AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm": "isolated",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""What Open MPI has to be told in a container: by root, on few cores, without ssh."""


@dataclass(frozen=True)
class CondaChannels:
    """A folder of channels, as a channel alias names it.

    Attributes:
        folder: Holds `conda-forge` (the stand-in), `horovod-variants` (our own channel, with
            everything) and `feedstock` (what conda-forge would have of this project).
        real: Beginnings of the build strings of packages with content, by platform; all others have
            none.
    """

    folder: Path
    real: Mapping[str, tuple[str, ...]]

    @property
    def alias(self) -> str:
        return f"{self.folder.as_uri()}/"

    def packages(self, pattern: str) -> list[Path]:
        return sorted((self.folder / "horovod-variants").glob(f"*/{pattern}"))

    @cached_property
    def real_packages(self) -> list[Path]:
        """The packages with content, the selector's included."""
        found = self.packages("variantwheel-selector-*.conda")
        for subdir, builds in self.real.items():
            for build in builds:
                pattern = f"{subdir}/horovod-variants-[0-9]*-{build}_py*.conda"
                (package,) = (self.folder / "horovod-variants").glob(pattern)
                found.append(package)
        return found

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
    real = BUILT if WHOLE else BUILT_QUICKLY
    if own.is_dir():
        return CondaChannels(folder, real)
    whole = ["--wheels", str(WHEELS), "--emulated", str(EMULATED)] if WHOLE else []
    run_tool("conda_bootstrap.py", bootstrap, *whole)
    building = ("conda_packages.py", "build", own, bootstrap)
    for place, (subdir, builds) in enumerate(real.items()):
        chosen = ["--subdir", subdir, "--only", ",".join(f"{build}_" for build in builds)]
        noarch = ["--noarch"] if place == 0 else []
        env = STATED_BY_PLATFORM[subdir]
        run_tool(*building, "--test", *noarch, *chosen, env=env)
    both = ["--subdir", X86, "--subdir", ARM]
    run_tool(*building, "--metadata", *both)
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
