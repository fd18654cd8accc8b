"""The released wheels under a real mpirun: what compiles them is not what compiles the tests."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from collective.mpi_launching import mpirun, prefix
from integration.environments import Release

SUM = """
import array
import sys
import horovod.array as hvd
from horovod._session import SESSION

hvd.init()
total = hvd.allreduce(array.array("f", [hvd.rank() + 1.0]), op=hvd.Sum)
sys.stdout.write(f"{SESSION.member.runtime.transport} {hvd.size()} {total[0]}\\n")
"""
PLUGINS = "horovod/_native/mpi/libhorovod_mpi_"


def _plugins(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(PLUGINS)]
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}


def test_every_wheel_sums_through_each_plug_in(release: Release, tmp_path: Path) -> None:
    wheels = sorted(release.folder.glob("horovod_variants-*.whl"))
    plugins = [_plugins(wheel) for wheel in wheels]
    families = ("mpich", "openmpi", "standard")
    assert sorted(plugins[0]) == [f"{PLUGINS}{family}.so" for family in families]
    # So what one wheel does with an MPI, all others do.
    assert [item for item in plugins if item != plugins[0]] == []
    assert len(wheels) >= 2
    for wheel, mpi, library in (
        (wheels[0], "openmpi", ""),
        (release.wheel("null"), "mpich", ""),
        (wheels[-1], "mpich", "lib/libmpi_abi.so.1"),
    ):
        folder = tmp_path / wheel.stem
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        variables = {"PYTHONPATH": str(folder), "HOROVOD_CPU_OPERATIONS": "MPI"}
        if library:
            variables["HOROVOD_MPI_LIBRARY"] = str(prefix(mpi) / library)
        launched = mpirun(mpi, 2, "-c", SUM, **variables)
        assert launched.code == 0, launched.err
        assert launched.out.splitlines().count("mpi 2 3.0") == 2, launched.out
