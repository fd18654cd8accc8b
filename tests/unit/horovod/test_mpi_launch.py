"""What a process's environment says of the launcher that started it."""

from pathlib import Path

import pytest

from horovod._mpi import (
    Launch,
    describe_lone_tasks,
    family_of,
    is_wanted,
    loaded_libraries,
    others_wait,
    read_launch,
    speaks_pmi,
)

SRUN = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}


@pytest.mark.parametrize(
    ("environment", "launch"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "3"}, Launch("openmpi", 3)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}, Launch("mpich", 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Launch("", 2)),
        ({**SRUN, "PMIX_RANK": "0"}, Launch("", 4)),
        (SRUN, None),
        ({}, None),
    ],
)
def test_launchers_are_told_by_their_variables(
    environment: dict[str, str], launch: Launch | None
) -> None:
    assert read_launch(environment) == launch
    assert is_wanted(environment) == (launch is not None)


@pytest.mark.parametrize(
    ("environment", "wait"),
    [
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, True),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "HOROVOD_CONTROLLER": "fast"}, True),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "HOROVOD_CONTROLLER": "gloo"}, False),
        ({"PMI_RANK": "0", "PMI_SIZE": "1", "HOROVOD_CONTROLLER": "mpi"}, False),
        ({"HOROVOD_CONTROLLER": "mpi"}, False),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "HOROVOD_RANK": "1"}, False),
    ],
)
def test_ranks_of_an_mpi_launcher_wait_for_each_other(
    environment: dict[str, str], *, wait: bool
) -> None:
    assert others_wait(environment) is wait


def test_tasks_that_srun_leaves_alone_are_told_so_once() -> None:
    line = describe_lone_tasks(SRUN)
    assert line.startswith("srun has started 4 tasks and told them nothing of each other")
    assert "srun --mpi=pmix" in line
    assert describe_lone_tasks({**SRUN, "SLURM_PROCID": "1"}) == ""


def test_tasks_that_a_setting_keeps_from_meeting_are_told_so_once() -> None:
    gloo = {"HOROVOD_CONTROLLER": "gloo", "PMI_RANK": "0", "PMI_SIZE": "3"}
    line = describe_lone_tasks(gloo)
    assert line.startswith("the launcher has started 3 tasks, and HOROVOD_CONTROLLER=gloo keeps")
    assert "horovodrun" in line
    for more in ({"PMI_RANK": "1"}, {"HOROVOD_SIZE": "3"}, {"HOROVOD_CONTROLLER": "auto"}):
        assert describe_lone_tasks(gloo | more) == ""


@pytest.mark.parametrize(
    ("environment", "pmi"),
    [({"PMI_RANK": "0"}, True), ({"PMI_RANK": "0", "PMIX_RANK": "0"}, False), ({}, False)],
)
def test_how_a_launcher_speaks_tells_which_mpi_may_hear(
    environment: dict[str, str], *, pmi: bool
) -> None:
    assert speaks_pmi(environment) is pmi


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # of a batch script, which is one process
        {**SRUN, "SLURM_STEP_NUM_TASKS": "1"},
        {**SRUN, "PMIX_RANK": "0"},
        {**SRUN, "PMI_RANK": "0"},
        {**SRUN, "HOROVOD_RANK": "0"},
    ],
)
def test_nobody_else_is_told_so(environment: dict[str, str]) -> None:
    assert describe_lone_tasks(environment) == ""


@pytest.mark.parametrize(
    ("library", "beside", "family"),
    [
        ("libmpi.so.40.40.7", "", "openmpi"),
        ("libmpi.so.12", "", "mpich"),
        ("libmpi.so", "libmpi.so.12", "mpich"),
        ("libmpi.so", "libmpi.so.40", "openmpi"),
        ("libmpi.so", "libmpi_abi.so.1", ""),
        ("libmpi.so", "", ""),
        ("libmpifort.so.12", "libmpi.so.12", ""),
    ],
)
def test_a_plain_name_is_told_by_what_lies_beside_it(
    library: str, beside: str, family: str, tmp_path: Path
) -> None:
    path = tmp_path / library
    for name in (library, beside):
        if name:
            (tmp_path / name).touch()
    assert family_of(str(path)) == family
    maps = f"7f00-7f01 r-xp 00000000 08:01 77 {path}\n"
    assert loaded_libraries(maps) == ([str(path)] if family else [])
