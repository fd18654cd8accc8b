"""Jobs that a real Slurm starts: `./dev slurm`."""

import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cluster.slurm_cluster import Cluster
from collective.launching import LAUNCH_SECONDS, Launched
from collective.mpi_launching import prefix

RANKS = Path(__file__).parent / "ranks"
LAUNCHER = (sys.executable, "-m", "horovod.runner")
BOTH = {"MPI_HOME": "mpich", "MPI_ROOT": "openmpi"}


def srun(
    cluster: Cluster, program: str, *words: str, mpi: Mapping[str, str] | None = None, **more: str
) -> Launched:
    """Runs a program on some tasks; `mpi` are variables that name folders of MPIs."""
    folders = {name: str(prefix(folder)) for name, folder in (mpi or {}).items()}
    command = ("srun", *words, sys.executable, str(RANKS / program))
    return cluster.run(*command, variables=folders | more)


def said_by(launched: Launched) -> list[str]:
    assert launched.code == 0, launched.err
    return sorted(launched.out.splitlines())


@pytest.mark.parametrize(
    ("words", "mpi"),
    [
        (("--mpi=pmi2", "--nodes=1", "--ntasks=3"), {"MPI_HOME": "mpich"}),
        (("--mpi=pmi2", "--nodes=3", "--ntasks=5"), {"MPI_HOME": "mpich"}),
        (("--mpi=pmi2", "--nodes=2", "--ntasks=2"), BOTH),
        (("--mpi=pmix", "--nodes=2", "--ntasks=2"), BOTH),
        (("--mpi=pmix", "--nodes=1", "--ntasks=2"), {"MPI_HOME": "openmpi"}),
    ],
)
def test_ranks_meet_through_mpi(
    cluster: Cluster, words: tuple[str, ...], mpi: dict[str, str]
) -> None:
    launched = srun(cluster, "sum_of_ranks.py", *words, mpi=mpi)
    size = int(words[-1].rpartition("=")[2])
    total = size * (size + 1) // 2
    lines = said_by(launched)
    assert [line.partition(" on ")[0] for line in lines] == [
        f"rank {rank} of {size}" for rank in range(size)
    ]
    assert all(line.endswith(f": {total}") for line in lines)
    nodes = int(words[1].rpartition("=")[2])
    assert len({line.rpartition(" on ")[2] for line in lines}) == nodes


def test_tasks_that_are_told_nothing_of_each_other_say_so(cluster: Cluster) -> None:
    launched = srun(cluster, "sum_of_ranks.py", "--nodes=1", "--ntasks=3")
    assert [line.partition(" on ")[0] for line in said_by(launched)] == ["rank 0 of 1"] * 3
    assert launched.err.count("srun has started 3 tasks and told them nothing of each other") == 1


def test_tasks_that_a_setting_keeps_apart_say_so(cluster: Cluster) -> None:
    words = ("--mpi=pmi2", "--nodes=1", "--ntasks=3")
    launched = srun(cluster, "sum_of_ranks.py", *words, HOROVOD_CONTROLLER="gloo")
    assert [line.partition(" on ")[0] for line in said_by(launched)] == ["rank 0 of 1"] * 3
    assert launched.err.count("the launcher has started 3 tasks, and HOROVOD_CONTROLLER=gloo") == 1


@pytest.mark.parametrize(
    "words", [("--mpi=pmi2", "--ntasks=3"), ("--mpi=pmix", "--nodes=2", "--ntasks=2")]
)
def test_a_step_ends_when_a_rank_is_lost(cluster: Cluster, words: tuple[str, ...]) -> None:
    launched = srun(cluster, "losing_a_rank.py", *words, mpi=BOTH)
    assert launched.code != 0
    if "--mpi=pmi2" in words:  # the other ends the step at once
        assert [line.partition(" (")[0] for line in sorted(launched.out.splitlines())] == [
            "rank 0: rank 1",
            "rank 2: rank 1",
        ]


def test_horovodrun_says_when_it_leaves_nodes_alone(cluster: Cluster) -> None:
    job = ("salloc", "--nodes=2", *LAUNCHER, "-np", "2", sys.executable)
    launched = cluster.run(*job, str(RANKS / "sum_of_ranks.py"))
    assert launched.code == 0, launched.err
    assert launched.err.count("though the Slurm job has 2 nodes") == 1
    (advice,) = (line for line in launched.err.splitlines() if "scontrol" in line)
    words = advice.partition(" -H ")[2].replace("SLOTS", "2")
    shown = cluster.run("salloc", "--nodes=2", "bash", "-c", f"echo {words}")
    assert re.fullmatch(r"node0\d:2,node0\d:2\n", shown.out)


@pytest.fixture
def job(cluster: Cluster, tmp_path: Path) -> str:
    """The number of a batch job whose two ranks have started; they would run for ever."""
    script = tmp_path / "script"
    program = f"{LAUNCHER[0]} -m horovod.runner -np 2 {sys.executable} {RANKS}/until_told.py"
    script.write_text(f"#!/bin/sh\nexec {program} {tmp_path}/started\n")
    told = cluster.run(
        "sbatch", "--parsable", f"--output={tmp_path}/output", "--time=1", "--signal=B:TERM@50",
        script,
    )  # fmt: skip
    assert told.code == 0, told.err
    _await(lambda: len(list(tmp_path.glob("started*"))) == 2)
    return told.out.strip()


def _await(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LAUNCH_SECONDS
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)  # what other processes do


def _is_over(cluster: Cluster, job: str) -> bool:
    return cluster.run("squeue", "--noheader", "--job", job).out == ""


def test_a_job_hears_of_its_end_before_its_time_is_over(
    cluster: Cluster, job: str, tmp_path: Path
) -> None:
    _await(lambda: _is_over(cluster, job))
    said = (tmp_path / "output").read_text()
    assert "rank 0 was told" in said
    assert "rank 1 was told" in said


def test_a_cancelled_job_leaves_no_process(cluster: Cluster, job: str) -> None:
    assert cluster.run("scancel", job).code == 0
    _await(lambda: _is_over(cluster, job))
    _await(lambda: cluster.run("pgrep", "--full", "until_told.py").out == "")
