"""Files and folders whose names are not UTF-8, as those written in another encoding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import horovod
from collective.launching import LAUNCH_SECONDS, horovodrun, rank_environment

NAME = b"no-text-\xe9"
MAPPED = """
import mmap, os, sys
with open(os.fsencode(sys.argv[1]), "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
"""
SUM = "import horovod.array as hvd, numpy; hvd.init(); print(hvd.allreduce(numpy.ones(1))[0])"


def named(folder: Path) -> Path:
    """A path in a folder, with a name that is not UTF-8."""
    return folder / os.fsdecode(NAME)


def test_ranks_that_have_mapped_such_a_file_form_a_job(tmp_path: Path) -> None:
    named(tmp_path).write_bytes(b"x")
    launched = horovodrun("-np", "2", sys.executable, "-c", MAPPED + SUM, str(named(tmp_path)))
    assert launched.code == 0, launched.err
    assert [launched.lines(rank) for rank in (0, 1)] == [["1.0"], ["1.0"]]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that find this installation in such a folder."""
    named(tmp_path).mkdir()
    (named(tmp_path) / "horovod").symlink_to(Path(horovod.__file__).parent)
    environment = rank_environment()
    paths = [str(named(tmp_path)), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}


def test_an_installation_in_such_a_folder_works(installed: dict[str, str]) -> None:
    asked = "import horovod.common.basics as known; basics = known.HorovodBasics()"
    program = f"{SUM}; {asked}; print(ascii(hvd.__file__), basics.mpi_built(), basics.nccl_built())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, env=installed, timeout=LAUNCH_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.0\n'")
    assert "no-text-\\udce9/horovod" in done.stdout


def test_an_installation_in_such_a_folder_reports_on_itself(installed: dict[str, str]) -> None:
    library = f"{installed['PYTHONPATH'].partition(os.pathsep)[0]}/libmpi.so"

    def report(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "horovod.runner", "--check-build", *words],
            capture_output=True,
            text=True,
            env={**installed, "HOROVOD_MPI_LIBRARY": library},
            timeout=LAUNCH_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr

    told = json.loads(report("--json"))["runtime"]["facts"]
    assert told["library"].startswith(str(Path(library).parent))
    assert f"tried {library} (HOROVOD_MPI_LIBRARY)" in told["mpi"]["reason"]
    assert "no-text-\\udce9/libmpi.so (HOROVOD_MPI_LIBRARY)" in report()
