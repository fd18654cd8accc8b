"""The words that `horovodrun --mpi` has for the launchers of the MPIs."""

from pathlib import Path
from typing import Any

import pytest

from horovod.runner.hosts import HostInfo
from horovod.runner.mpi_run import (
    INTEL_MPI,
    MPICH,
    OPEN_MPI,
    MpiJob,
    Mpirun,
    MpirunError,
    make_command,
)
from horovod.runner.ssh_options import SshOptions

TWO = (HostInfo("a", 2), HostInfo("b", 2))
UNLIKE = (HostInfo("a", 1), HostInfo("b", 3))


def command(kind: str, *, np: int = 3, version: str = "1.0", **facts: Any) -> str:
    given = {"hosts": (), "environment": {}, "ssh": SshOptions(None, None), **facts}
    job = MpiJob(command=("train", "-x"), np=np, **given)
    return " ".join(make_command(Mpirun("mpirun", kind, version), job))


@pytest.mark.parametrize(
    ("kind", "hosts", "ranks"),
    [
        (MPICH, (), "-np 3 train -x"),
        (MPICH, UNLIKE, "-np 3 -hosts a:1,b:3 train -x"),
        (INTEL_MPI, (), "-np 3 train -x"),
        (INTEL_MPI, TWO, "-np 3 -hosts a,b -ppn 2 train -x"),
        (INTEL_MPI, UNLIKE, "-np 1 -host a train -x : -np 2 -host b train -x"),
    ],
)
def test_hosts_as_each_hydra_takes_them(kind: str, hosts: tuple[HostInfo, ...], ranks: str) -> None:
    words = command(kind, hosts=hosts, mpi_args="-genv A 1")
    assert words.endswith(f" -genv A 1 {ranks}")


def test_where_open_mpi_keeps_the_output() -> None:
    kept: dict[str, Any] = {"output_directory": Path("/o"), "version": "mpirun (Open MPI) 4.1.4"}
    assert " --tag-output --output-filename /o " in command(OPEN_MPI, **kept)
    kept["version"] = "mpirun (Open MPI) 5.0.11"
    assert " --output tag,file=/o/rank " in command(OPEN_MPI, **kept)
    assert " --output tag,timestamp,file=/o/rank " in command(OPEN_MPI, timestamp=True, **kept)
    assert " --tag-output --timestamp-output " in command(OPEN_MPI, timestamp=True)
    with pytest.raises(MpirunError, match="no folder with a comma or a colon"):
        command(OPEN_MPI, **{**kept, "output_directory": Path("/a,b")})
