"""Ranks that a real mpirun has started: that of each MPI below `.dev/mpi`.

Open MPI's and MPICH's of PyPI always; in `./dev mpi` Intel MPI's and that of Debian's Open MPI too.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collective.launching import LAUNCH_SECONDS, RANKS, Launched, horovodrun
from collective.mpi_launching import MPIS, environment, library, mpirun, prefix, programs, within
from horovod.runner.core_shares import usable_cores

# Those that `./dev mpi` adds.
FURTHER = [name for name in MPIS if name not in {"openmpi", "mpich"}]
# The standard's interface beside the family's own.
STANDARD = "lib/libmpi_abi.so.1"
BY_STANDARD = [(name, STANDARD) for name in ("mpich", "impi-rt") if name in MPIS]


def jobs_of(launched: Launched, ranks: int) -> list[list[dict[str, Any]]]:
    """What `mpi_places.py` said on each rank, by job."""
    assert launched.code == 0, launched.err
    said = [json.loads(line) for line in launched.out.splitlines() if line.startswith("[{")]
    assert len(said) == ranks, launched.out
    return [sorted(job, key=lambda facts: facts["rank"]) for job in zip(*said, strict=True)]


@pytest.mark.parametrize(("mpi", "stated"), [*((name, "") for name in MPIS), *BY_STANDARD])
def test_ranks_places_and_sums_come_right_through_each_plug_in(mpi: str, stated: str) -> None:
    variables = {"HOROVOD_CPU_OPERATIONS": "MPI"}
    if stated:
        variables["HOROVOD_MPI_LIBRARY"] = str(prefix(mpi) / stated)
    for job in jobs_of(mpirun(mpi, 3, RANKS / "mpi_places.py", **variables), 3):
        assert [facts["rank"] for facts in job] == [0, 1, 2]
        assert [facts["local"] for facts in job] == [[0, 3], [1, 3], [2, 3]]
        for facts in job:
            assert (facts["size"], facts["sum"]) == (3, [6.0, 6.0])
            assert (facts["transport"], facts["mpi"]) == ("mpi", [True, True, False])


@pytest.mark.parametrize("mpi", MPIS)
def test_communicators_of_mpi4py_are_jobs_and_its_mpi_is_shared(mpi: str) -> None:
    launched = mpirun(
        mpi, 4, RANKS / "mpi_places.py", "mpi4py",
        PYTHONPATH=str(prefix("mpi4py")), MPI4PY_LIBMPI=str(library(mpi)),
    )  # fmt: skip
    world, halves, *again = jobs_of(launched, 4)
    if mpi == "impi-rt":
        # A whole library under the plain name, which mpi4py opens where nothing else is said.
        plain = mpirun(
            mpi, 4, RANKS / "mpi_places.py", "mpi4py",
            PYTHONPATH=str(prefix("mpi4py")), LD_LIBRARY_PATH=str(library(mpi).parent),
        )  # fmt: skip
        assert len(jobs_of(plain, 4)) == 4
    for job in (world, *again):
        assert [facts["rank"] for facts in job] == [0, 1, 2, 3]
        assert {tuple(facts["sum"]) for facts in job} == {(10.0, 10.0)}
    assert [facts["rank"] for facts in halves] == [0, 0, 1, 1]
    assert {tuple(facts["sum"]) for facts in halves} == {(3.0, 3.0)}
    assert {facts["transport"] for facts in world} == {"shm"}


@pytest.mark.parametrize("mpi", MPIS)
def test_jobs_of_communicators_have_their_own_files(mpi: str, tmp_path: Path) -> None:
    launched = mpirun(
        mpi, 4, RANKS / "mpi_places.py", "mpi4py",
        PYTHONPATH=str(prefix("mpi4py")), MPI4PY_LIBMPI=str(library(mpi)),
        HOROVOD_AUTOTUNE="1", HOROVOD_AUTOTUNE_LOG=str(tmp_path / "log.csv"),
        HOROVOD_TIMELINE=str(tmp_path / "trace.json"), HOROVOD_TIMELINE_ALL_RANKS="1",
    )  # fmt: skip
    assert len(jobs_of(launched, 4)) == 4
    # The second of the four is that of the halves.
    sizes = {"": 4, ".1": 2, ".from2.1": 2, ".2": 4, ".3": 4}
    assert {path.name for path in tmp_path.glob("*.csv")} == {f"log{place}.csv" for place in sizes}
    traces = {path.name for path in tmp_path.glob("*.json")}
    assert traces == {
        f"trace{place}{f'.rank{rank}' * bool(rank)}.json"
        for place, size in sizes.items()
        for rank in range(size)
    }
    for name in traces:
        json.loads((tmp_path / name).read_text())


@pytest.mark.parametrize("mpi", MPIS)
def test_communicators_are_process_sets_that_their_members_name(mpi: str) -> None:
    launched = mpirun(
        mpi, 4, RANKS / "mpi_process_sets.py",
        PYTHONPATH=str(prefix("mpi4py")), MPI4PY_LIBMPI=str(library(mpi)),
    )  # fmt: skip
    (job,) = jobs_of(launched, 4)
    # Ranks 3 and 1 of the job are 0 and 2 of the world.
    for facts in job:
        rank = facts["rank"]
        assert facts["sets"] == {"0": [0, 1, 2, 3], "1": [0, 2], "2": [1, 3], "3": [0]}
        assert facts["own"] == [1 + rank % 2, [rank % 2, rank % 2 + 2], rank // 2, True]
        assert (facts["sum"], facts["global"]) == (rank % 2 * 2 + 2, True)
        again, everybody, nobody = facts["refused"]
        for refused in (again, everybody):
            assert "containing the same ranks already exists" in refused
            assert refused.endswith("{0: [0, 1, 2, 3], 1: [0, 2], 2: [1, 3]}")
        assert "COMM_NULL" in nobody


@pytest.mark.parametrize("mpi", MPIS)
def test_lists_of_ranks_are_jobs(mpi: str) -> None:
    halves, again, *everyone = jobs_of(mpirun(mpi, 4, RANKS / "mpi_places.py", "lists"), 4)
    assert halves == again
    assert [(facts["rank"], facts["size"]) for facts in halves] == [(0, 2), (0, 2), (1, 2), (1, 2)]
    assert {tuple(facts["sum"]) for facts in halves} == {(3.0, 3.0)}
    for job in everyone:
        assert {(facts["size"], *facts["sum"]) for facts in job} == {(4, 10.0, 10.0)}


@pytest.mark.parametrize("mpi", MPIS)
def test_a_rank_that_is_refused_and_ends_leaves_the_others_alone(mpi: str) -> None:
    (job,) = jobs_of(mpirun(mpi, 3, RANKS / "mpi_places.py", "refused"), 3)
    refused, *joined = job
    assert "not among the ranks that are to form a job" in refused["refused"]
    assert [(facts["rank"], facts["size"]) for facts in joined] == [(0, 2), (1, 2)]


def test_hosts_use_mpi_between_them_and_shared_memory_inside(tmp_path: Path) -> None:
    # What tells the hosts apart is their name: the machine is the same.
    wrapper = tmp_path / "on_a_host"
    wrapper.write_text('#!/bin/sh\nHOROVOD_HOSTNAME=host$((PMI_RANK / 2)) exec "$@"\n')
    wrapper.chmod(0o755)
    for job in jobs_of(mpirun("mpich", 4, RANKS / "mpi_places.py", prelude=str(wrapper)), 4):
        assert [facts["local"] for facts in job] == [[0, 2], [1, 2], [0, 2], [1, 2]]
        assert [facts["sum"] for facts in job] == [[10.0, 10.0]] * 4
        assert {facts["transport"] for facts in job} == {"shm+mpi"}


@pytest.mark.parametrize("mpi", ["mpich", *FURTHER])
def test_all_collectives_pass_their_checks_over_mpi(mpi: str, tmp_path: Path) -> None:
    files = [RANKS / name for name in ("array_checks.py", "process_set_checks.py")]
    launched = mpirun(
        mpi, 3, RANKS / "run_checks.py", *files, tmp_path,
        HOROVOD_TRANSPORT="mpi", HOROVOD_DYNAMIC_PROCESS_SETS="1",
    )  # fmt: skip
    assert launched.code == 0, launched.err
    for rank in range(3):
        outcomes = json.loads((tmp_path / f"{rank}.json").read_text())
        assert len(outcomes) > 40
        assert "".join(outcomes.values()) == ""


@pytest.mark.parametrize(
    ("mpi", "operations"),
    [("openmpi", "mpi"), ("mpich", "gloo"), *((name, "mpi") for name in FURTHER)],
)
def test_a_killed_rank_ends_the_job(mpi: str, operations: str) -> None:
    program = RANKS / "mpi_lose_a_rank.py"
    launched = mpirun(mpi, 2, program, HOROVOD_CPU_OPERATIONS=operations)
    assert launched.code != 0


@pytest.mark.parametrize("mpi", MPIS)
def test_an_exception_ends_the_job_whatever_the_others_are_at(mpi: str) -> None:
    launched = mpirun(mpi, 2, RANKS / "mpi_raise_on_one.py")
    assert launched.code != 0
    assert "rank 1 has had enough" in launched.err + launched.out


@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOROVOD_CYCLE_TIME", "fast"),
        ("HOROVOD_CONTROLLER", "fast"),
        ("HOROVOD_MPI_LIBRARY", "/nowhere/libmpi.so"),
    ],
)
def test_what_init_refuses_on_one_rank_ends_the_job(mpi: str, name: str, value: str) -> None:
    launched = mpirun(mpi, 2, RANKS / "mpi_refused_on_one.py", name, value)
    said = launched.err + launched.out
    assert launched.code != 0
    assert value in said
    assert "MPI has not started within" not in said


@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize(("refused", "status"), [("one", 3), ("all", 3), ("all", 0)])
def test_a_rank_that_catches_what_init_refuses_ends_the_job_by_its_status(
    mpi: str, refused: str, status: int
) -> None:
    launched = mpirun(mpi, 2, RANKS / "mpi_caught.py", refused, str(status))
    if mpi in {"impi-rt", "mpich"} and status != 0:
        assert launched.code != 0  # they may tell how they have ended the other
    else:
        assert launched.code == status, launched.err
    assert "init()" not in launched.err + launched.out  # nobody has waited for it


@pytest.mark.parametrize("mpi", MPIS)
def test_a_program_between_mpirun_and_rank_may_have_a_name_that_is_no_text(
    mpi: str, tmp_path: Path
) -> None:
    # The kernel cuts names after 15 bytes, here within a character.
    wrapper = tmp_path / "pretrainings__\u00e9t\u00e9.sh"
    wrapper.write_text('#!/bin/sh\n"$@"\nexit $?\n')
    wrapper.chmod(0o755)
    for job in jobs_of(mpirun(mpi, 2, RANKS / "mpi_places.py", prelude=str(wrapper)), 2):
        assert [facts["rank"] for facts in job] == [0, 1]


@pytest.mark.parametrize("mpi", MPIS)
def test_a_rank_that_does_not_come_ends_the_job_in_time(mpi: str) -> None:
    program = RANKS / "mpi_absent_one.py"
    launched = mpirun(mpi, 2, program, HOROVOD_START_TIMEOUT="1")
    assert launched.code != 0
    assert "MPI has not started within 1 seconds" in launched.err + launched.out
    assert "rank 0 is on its way" in launched.out


def run(
    mpi: str, *arguments: str | Path, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m horovod.runner` where one of the MPIs is on the path."""
    return subprocess.run(
        [*within(mpi), sys.executable, "-m", "horovod.runner", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**environment(mpi), **(variables or {})},
        timeout=LAUNCH_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("mpi", MPIS)
def test_horovodrun_starts_mpirun(mpi: str) -> None:
    openmpi = MPIS[mpi].family == "openmpi"
    args = "--mpi-args=--mca pml ob1" if openmpi else "--mpi-args=-genv MARK 1"
    done = run(
        mpi, "-np", "3", "--mpi", "--verbose", "--fusion-threshold-mb", "32", args,
        sys.executable, "-c",
        # At once: unbuffered output of several ranks mixes otherwise.
        "import os, horovod.array as hvd; hvd.init(); os.write(1, f'<{hvd.rank()} of {hvd.size()}"
        " {os.environ[\"HOROVOD_FUSION_THRESHOLD\"]} {os.environ[\"HOROVOD_CONTROLLER\"]}>\\n'"
        ".encode())",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        assert f"<{rank} of 3 33554432 mpi>" in done.stdout
    assert MPIS[mpi].said in done.stderr
    assert f"{programs(mpi)}/mpirun " in done.stderr


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if MPIS[mpi].family == "mpich"])
def test_lines_that_python_prints_stay_whole(mpi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    done = run(
        mpi, "-np", "2", "--mpi", sys.executable, "-c",
        "import os\n"
        "rank = os.environ['PMI_RANK']\n"
        "for i in range(50): print('rank', rank, 'step', i, 'loss', 0.5)",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = {f"rank {rank} step {i} loss 0.5" for rank in range(2) for i in range(50)}
    marks = re.compile(r"^\[\d+\] ")
    assert {marks.sub("", line) for line in done.stdout.splitlines()} == expected


@pytest.mark.parametrize(
    ("mpi", "hosts"),
    [
        *((mpi, "localhost:3") for mpi in MPIS),
        # Two names of a host are not one host to Hydra alone.
        *((mpi, "localhost:1,127.0.0.1:2") for mpi in MPIS if MPIS[mpi].family == "mpich"),
    ],
)
def test_hosts_and_their_slots_are_handed_to_mpirun(mpi: str, hosts: str) -> None:
    variable = "MPI_LOCALNRANKS" if MPIS[mpi].family == "mpich" else "OMPI_COMM_WORLD_LOCAL_SIZE"
    show = (
        f'echo "<${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} among ${variable}, $OMP_NUM_THREADS threads>"'
    )
    done = run(mpi, "-np", "3", "--mpi", "-H", hosts, "sh", "-c", show)
    assert done.returncode == 0, done.stderr
    among = ["3"] * 3 if hosts == "localhost:3" else ["1", "2", "2"]
    threads = max(1, usable_cores() // 3)
    for rank, ranks in enumerate(among):
        assert f"<{rank} among {ranks}, {threads} threads>" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("words", "variables"),
    [(("--mpi-args=-genv MARK 1",), {}), ((), {"PBS_NODEFILE_OF_MINE": "1"})],
    ids=["arguments", "manager"],
)
def test_cores_are_not_shared_out_where_mpirun_may_start_ranks_elsewhere(
    words: tuple[str, ...], variables: dict[str, str]
) -> None:
    show = 'echo "<${OMP_NUM_THREADS:-none}>"'
    done = run("mpich", "-np", "2", "--mpi", *words, "sh", "-c", show, variables=variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<none>") == 2, done.stdout


def test_output_is_kept_where_open_mpi_5_keeps_all_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    show = "echo to stdout; echo to stderr >&2"
    done = run("openmpi", "-np", "2", "--mpi", "--output-filename", folder, "sh", "-c", show)
    assert done.returncode == 0, done.stderr
    assert f"see {folder}/rank.<job>.<rank>.out and .err" in done.stderr
    for rank in (0, 1):
        for ending, stream in (("out", "stdout"), ("err", "stderr")):
            (file,) = folder.glob(f"rank.*.{rank}.{ending}")
            assert f"to {stream}" in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


FUNCTION = """
import horovod, sys
def on_rank(start):
    import array, horovod.array as hvd
    hvd.init()
    total = hvd.allreduce(array.array("d", [start + hvd.rank()]), op=hvd.Sum)
    if start < 0:
        raise SystemExit(5)
    return hvd.rank(), list(total), hvd.size()
for start in (1.0, -1.0):
    try:
        sys.stderr.write(f"{horovod.run(on_rank, (start,), num_proc=3, use_mpi=True)}\\n")
    except RuntimeError as error:
        sys.stderr.write(f"{error}\\n")
"""


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_function_runs_under_mpirun_and_its_results_come_by_rank(mpi: str) -> None:
    done = subprocess.run(
        [*within(mpi), sys.executable, "-c", FUNCTION],
        capture_output=True,
        text=True,
        env=environment(mpi),
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    assert "[(0, [6.0], 3), (1, [6.0], 3), (2, [6.0], 3)]" in done.stderr, done.stderr
    assert "The job ended with code 5." in done.stderr, done.stderr


def test_horovodrun_says_why_it_cannot_use_mpi() -> None:
    none = run("mpich", "-np", "2", "--mpi", "true", variables={"PATH": "/nonexistent"})
    assert (none.returncode, none.stdout) == (2, "")
    assert "there is no mpirun on PATH" in none.stderr


def test_check_build_finds_the_mpi_that_is_on_the_path() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "horovod.runner.build_probe", "runtime"],
        capture_output=True,
        text=True,
        env=environment("mpich"),
        timeout=LAUNCH_SECONDS,
        check=True,
    )
    facts = json.loads(done.stdout)["mpi"]
    assert facts["version"].startswith("MPICH")
    assert facts["built"] == ["openmpi", "mpich", "standard"]


def test_another_mpi_than_the_launchers_is_refused() -> None:
    other = str(library("openmpi"))
    launched = mpirun("mpich", 2, RANKS / "mpi_places.py", HOROVOD_MPI_LIBRARY=other)
    assert launched.code != 0
    assert "but MPICH or Intel MPI has started this process" in launched.err


def test_mpi_operations_are_no_more_than_a_wish_in_a_job_without_mpi() -> None:
    program = (
        "import numpy, horovod.array as hvd; hvd.init();"
        " print(hvd.allreduce(numpy.ones(1, 'f4'), op=hvd.Sum)[0])"
    )
    # Behind `-np`, since the launcher states the variable itself.
    launched = horovodrun("-np", "2", "HOROVOD_CPU_OPERATIONS=MPI", sys.executable, "-c", program)
    assert launched.code == 0, launched.err
    assert [launched.lines(rank) for rank in (0, 1)] == [["2.0"], ["2.0"]]
    said = "HOROVOD_CPU_OPERATIONS=MPI has no effect: the ranks of this job have not met through"
    assert launched.err.count(said) == 1, launched.err
