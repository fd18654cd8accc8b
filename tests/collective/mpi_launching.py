"""Runs programs under the `mpirun` of the MPIs that have been unpacked below `.dev/mpi`.

`ci/mpi_wheels.py` brings those of PyPI there, `ci/debian_mpi.py` Debian's.
"""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collective.launching import LAUNCH_SECONDS, Launched, clean_environment

FOLDER = Path(__file__).parents[2] / ".dev" / "mpi"
# Of the commands in this, /usr and /etc hold the unpacked packages beside what the machine has.
_INSTALLED_IN = """
for folder in /usr /etc; do
  mount -t overlay -o "lowerdir=$0$folder:$folder" overlay "$folder" || exit 125
done
exec "$@"
"""


@dataclass(frozen=True)
class Mpi:
    """An MPI and what has to be known to run it here.

    Attributes:
        family: of its binary interface, as `horovod._mpi` names it.
        said: what `horovodrun --verbose` says of it.
        library: below its prefix.
        programs: folder of `mpirun`, below its prefix.
        crowded: options for more ranks than cores; a rank of ours has three threads.
        variables: of the environment.
        overlaid: it has no prefix of its own, but belongs below `/usr`.
    """

    family: str
    said: str
    library: str
    programs: str = "bin"
    crowded: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    overlaid: bool = False


_OPENMPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_OPENMPI_CROWDED = ("--map-by", ":OVERSUBSCRIBE", "--bind-to", "none")
_KNOWN = {
    "openmpi": Mpi(
        "openmpi", "is Open MPI (mpirun (Open MPI) 5", "lib/libmpi.so.40",
        crowded=_OPENMPI_CROWDED, variables=_OPENMPI_AS_ROOT,
    ),
    "mpich": Mpi("mpich", "is MPICH (Version: 5", "lib/libmpi.so.12"),
    "impi-rt": Mpi(
        "mpich", "is Intel MPI (Intel(R) MPI Library", "lib/libmpi.so.12",
        variables={"I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"},
    ),
    "debian": Mpi(
        "openmpi", "is Open MPI (mpirun (Open MPI) 4", "usr/lib/x86_64-linux-gnu/libmpi.so.40",
        programs="usr/bin", crowded=_OPENMPI_CROWDED, variables=_OPENMPI_AS_ROOT, overlaid=True,
    ),
}  # fmt: skip
# The first two always; the others, large as they are, where `./dev mpi` has unpacked them.
MPIS = {
    name: mpi
    for name, mpi in _KNOWN.items()
    if name in {"openmpi", "mpich"} or (FOLDER / name).is_dir()
}


def prefix(name: str) -> Path:
    """Where one of them is; skips the test where nobody has unpacked it."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: `./dev tests`, or ci/mpi_wheels.py, unpacks it")
    return folder


def programs(name: str) -> Path:
    """The folder of its `mpirun`, as commands started by `within` see it."""
    return Path("/", MPIS[name].programs) if MPIS[name].overlaid else prefix(name) / "bin"


def library(name: str) -> Path:
    """Its library, as commands started by `within` see it."""
    return Path("/" if MPIS[name].overlaid else prefix(name), MPIS[name].library)


def within(name: str) -> list[str]:
    """What starts a command where the MPI is installed, as far as the command can tell."""
    if not MPIS[name].overlaid:
        return []
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    return ["unshare", *user, "--mount", "sh", "-c", _INSTALLED_IN, str(prefix(name))]


@functools.cache
def _folder() -> str:
    """For the files of all mpiruns that this process starts; short, since sockets are there too."""
    folder = tempfile.mkdtemp(prefix="mpi")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(name: str, **variables: str) -> dict[str, str]:
    """Of a process that uses one of the MPIs.

    Each gets a TMPDIR of its own: Open MPI's mpirun fails ("The PMIx server's listener thread
    failed to start") where one of the same process id has been killed and so left its files.
    """
    path = os.pathsep.join([str(programs(name)), os.environ["PATH"]])
    own = tempfile.mkdtemp(dir=_folder(), prefix="")
    return {
        **clean_environment(), **MPIS[name].variables, "PATH": path, "TMPDIR": own, **variables,
    }  # fmt: skip


def mpirun(
    name: str, ranks: int, *arguments: str | Path, prelude: str = "", **variables: str
) -> Launched:
    """Runs a Python program on some ranks; fails the test when it does not end.

    Args:
        name: one of `MPIS`.
        ranks: how many.
        arguments: the program and its own.
        prelude: a program that starts another, to run the Python with.
        variables: of the environment.
    """
    command = [
        *within(name), programs(name) / "mpirun", *MPIS[name].crowded, "-np", str(ranks),
        *prelude.split(), sys.executable, *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env=environment(name, **{"HOROVOD_START_TIMEOUT": "120", **variables}),
        timeout=LAUNCH_SECONDS,
        check=False,
        cwd=Path(__file__).parent,
    )
    return Launched(done.returncode, done.stdout, done.stderr)
