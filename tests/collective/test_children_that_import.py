"""Processes that multiprocessing starts in ranks, which import the script and its `init()` anew."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from collective.conftest import Launch
from collective.launching import RANKS, horovodrun
from collective.mpi_launching import mpirun

METHODS = ["spawn", "forkserver"]
PROGRAM = "children_that_import.py"


def said(lines: list[str], ranks: int = 2) -> list[Any]:
    """The results of a rank's children."""
    results, total, _ = json.loads(lines[-1])
    assert total == ranks  # they communicate as before
    found: list[Any] = results
    return found


@pytest.mark.parametrize("method", METHODS)
def test_they_have_their_ranks_place_and_wait_for_nobody(launch: Launch, method: str) -> None:
    launched = launch(2, PROGRAM, method, "place", "3", "0")
    assert launched.code == 0, launched.err
    place = [0, 2, 0, 2, 0, 1, True, True, False, 0, 2, 1]
    assert said(launched.lines(0)) == [place] * 3
    assert said(launched.lines(1)) == []


@pytest.mark.parametrize("method", METHODS)
def test_they_join_a_job_when_they_communicate(launch: Launch, method: str) -> None:
    launched = launch(2, PROGRAM, method, "add_up", "1", "1")
    assert launched.code == 0, launched.err
    assert said(launched.lines(0)) == said(launched.lines(1)) == [[3.0, 1]]


def test_one_that_waits_in_vain_says_what_it_is(launch: Launch) -> None:
    env = {"HOROVOD_START_TIMEOUT": "3"}
    launched = launch(2, PROGRAM, "spawn", "try_to_add_up", "1", "0", env=env)
    assert launched.code == 0, launched.err
    ((kind, text, known_rank),) = said(launched.lines(0))
    assert (kind, known_rank) == ("HorovodInternalError", 0)
    _, _, rank = json.loads(launched.lines(0)[-1])
    assert "rank 1 did not come within 3 s" in text
    assert f"This process is not rank 0, but was started by it, process {rank}," in text
    assert '`if __name__ == "__main__":`' in text


def test_they_record_nothing(launch: Launch, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    env = {"RECORDED": str(trace)}
    launched = launch(2, PROGRAM, "spawn", "place", "1", "1", env=env)
    assert launched.code == 0, launched.err
    assert "is ignored" not in launched.err
    assert json.loads(trace.read_text())


def test_they_leave_and_come_back(launch: Launch) -> None:
    launched = launch(2, PROGRAM, "spawn", "leave_and_come_back", "0", "1")
    assert launched.code == 0, launched.err
    assert said(launched.lines(1)) == [[False, 1]]


def test_a_job_that_one_starts_has_places_of_its_own(launch: Launch) -> None:
    launched = launch(2, PROGRAM, "spawn", "run_a_job", "0", "1")
    assert launched.code == 0, launched.err
    assert said(launched.lines(1)) == [["[0]<stdout>:0 2", "[1]<stdout>:1 2"]]


def test_a_program_that_a_rank_runs_says_whose_place_it_has(launch: Launch) -> None:
    launched = launch(2, PROGRAM, "none", "run_a_program", "1", "0")
    assert launched.code == 0, launched.err
    ((code, text),) = said(launched.lines(0))
    _, _, rank = json.loads(launched.lines(0)[-1])
    assert code == "1"
    assert "rank 1 did not come within 3 s" in text
    assert f"This process is not rank 0, but was started by it, process {rank}," in text


@pytest.mark.parametrize("ranks", [1, 2])
def test_in_an_elastic_job_they_take_no_place(ranks: int) -> None:
    arguments = (RANKS / PROGRAM, "forkserver", "try_to_add_up", "1", "1")
    count, env = str(ranks), {"ALONE": "1"} if ranks == 1 else None
    launched = horovodrun("-np", count, "--min-np", count, sys.executable, *arguments, env=env)
    assert launched.code == 0, launched.err
    for rank in range(ranks):
        ((kind, text, known_rank),) = said(launched.lines(rank), ranks)
        assert (kind, known_rank) == ("RuntimeError", rank)
        assert "processes that ranks start form no job where the ranks come and go" in text


@pytest.mark.parametrize("ranks", [1, 2])
def test_in_an_elastic_job_a_program_takes_no_place(ranks: int) -> None:
    arguments = (RANKS / PROGRAM, "none", "run_a_program", "1", "0")
    count, env = str(ranks), {"ALONE": "1"} if ranks == 1 else None
    launched = horovodrun("-np", count, "--min-np", count, sys.executable, *arguments, env=env)
    assert launched.code == 0, launched.err
    ((code, text),) = said(launched.lines(0), ranks)
    assert code == "1"
    assert text.startswith("RuntimeError: there is no place in an elastic job for this.")


@pytest.mark.parametrize("work", ["place", "try_to_add_up"])
def test_they_leave_mpi_alone(work: str) -> None:
    launched = mpirun("openmpi", 2, RANKS / PROGRAM, "spawn", work, "1", "1")
    assert launched.code == 0, launched.err
    results = [said([line])[0] for line in launched.out.splitlines() if line.startswith("[")]
    assert len(results) == 2
    if work == "place":
        assert sorted(result[:2] for result in results) == [[0, 2], [1, 2]]
    else:
        assert {result[0] for result in results} == {"RuntimeError"}
        assert all("where the ranks have met through MPI" in result[1] for result in results)
