"""Ranks that die, raise or do not come: the others are told who, and nothing hangs."""

import pytest

from collective.conftest import Launch
from collective.launching import PATIENT_LAUNCHER

FAILED = (
    "Horovod detected that one or more processes exited with non-zero status, thus causing the job"
    " to be terminated. The first process to do so was:\nProcess name: 1\nExit code: {code}\n"
)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("program", ["lose_a_rank.py", "lose_an_idle_rank.py"])
def test_a_killed_rank_is_named_to_the_others(launch: Launch, program: str, transport: str) -> None:
    launched = launch(3, program, env={"HOROVOD_TRANSPORT": transport}, launcher=PATIENT_LAUNCHER)
    assert launched.code == 128 + 9
    assert FAILED.format(code=137) in launched.err
    assert "Process 1 exit with status code 137." in launched.err
    for rank in (0, 2):
        lines = launched.lines(rank)
        assert lines, launched.err
        assert all("rank 1" in line for line in lines)


def test_a_lost_first_rank_is_named_too(launch: Launch) -> None:
    launched = launch(2, "lose_rank_0.py", launcher=PATIENT_LAUNCHER)
    assert launched.code == 128 + 9
    assert any("rank 0" in line for line in launched.lines(1)), launched.out


def test_an_exception_on_one_rank_ends_the_others(launch: Launch) -> None:
    launched = launch(3, "raise_on_one.py", launcher=PATIENT_LAUNCHER)
    assert launched.code != 0
    assert "rank 1 has had enough" in launched.lines(1, "stderr")
    others = "\n".join(launched.lines(0, "stderr") + launched.lines(2, "stderr"))
    assert "HorovodInternalError: Horovod has been shut down." in others
    assert "Horovod detected that one or more processes exited" in launched.err


def test_a_rank_that_does_not_come_is_named(launch: Launch) -> None:
    launched = launch(2, "start_late.py", env={"HOROVOD_START_TIMEOUT": "2"})
    assert launched.code == 4
    (line,) = launched.lines(0)
    assert line.startswith("failed: ")
    assert "1" in line


def test_a_rank_that_runs_out_of_memory_is_named_to_all(launch: Launch) -> None:
    launched = launch(2, "run_out_of_memory.py")
    for rank in (0, 1):
        (line,) = launched.lines(rank)
        assert line.startswith("rank 1 ("), launched.err
        assert "no memory for a result of 200000002 bytes" in line


def test_a_rank_that_closes_all_descriptors_fails_and_is_named(launch: Launch) -> None:
    launched = launch(2, "closes_descriptors.py", launcher=PATIENT_LAUNCHER)
    for rank, why in ((0, "rank 1 "), (1, "Bad file descriptor")):
        lines = launched.lines(rank)
        assert len(lines) == 3
        assert "raised" in lines[-1]
        # The first may need no descriptor; nothing returns without a result.
        assert all(why in line or "returned [" in line for line in lines), lines
