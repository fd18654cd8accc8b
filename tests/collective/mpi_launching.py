"""Runs programs under the `mpirun` of the MPIs that `ci/mpi_wheels.py` has unpacked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collective.launching import LAUNCH_SECONDS, Launched, clean_environment

FOLDER = Path(__file__).parents[2] / ".dev" / "mpi"
# More ranks than cores are wanted here, and a rank of ours has three threads.
_CROWDED = {"openmpi": ("--map-by", ":OVERSUBSCRIBE", "--bind-to", "none")}
_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def prefix(name: str) -> Path:
    """Where one of them is; skips the test where nobody has unpacked it."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: `./dev tests`, or ci/mpi_wheels.py, unpacks it")
    return folder


def environment(mpi: str, **variables: str) -> dict[str, str]:
    """Of a process that uses one of the MPIs."""
    path = os.pathsep.join([str(prefix(mpi) / "bin"), os.environ["PATH"]])
    return {**clean_environment(), **_ROOT, "PATH": path, **variables}


def mpirun(
    mpi: str, ranks: int, *arguments: str | Path, prelude: str = "", **variables: str
) -> Launched:
    """Runs a Python program on some ranks; fails the test when it does not end.

    Args:
        mpi: "openmpi" or "mpich".
        ranks: how many.
        arguments: the program and its own.
        prelude: a program that starts another, to run the Python with.
        variables: of the environment.
    """
    command = [
        prefix(mpi) / "bin" / "mpirun", *_CROWDED.get(mpi, ()), "-np", str(ranks),
        *prelude.split(), sys.executable, *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env=environment(mpi, HOROVOD_START_TIMEOUT="120", **variables),
        timeout=LAUNCH_SECONDS,
        check=False,
        cwd=Path(__file__).parent,
    )
    return Launched(done.returncode, done.stdout, done.stderr)
