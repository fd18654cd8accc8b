"""Unnamed operations of which one rank starts more than another: all ways in which this is said."""

import re

import pytest

from collective.conftest import Launch
from collective.launching import RANKS

WHAT_TO_DO = "give operations a name, the same on all ranks (name=...)."
PROGRAM = RANKS / "out_of_step.py"


def _line_of(mark: str) -> int:
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_mismatch_names_the_places_and_the_job_goes_on(launch: Launch, transport: str) -> None:
    cases = ("mismatch", "mismatch_of_handles", "after_a_join")
    launched = launch(2, "out_of_step.py", *cases, env={"HOROVOD_TRANSPORT": transport})
    assert launched.code == 0, launched.err
    called = f"Called by rank 0 at {PROGRAM}:{_line_of('extra')}; "
    called += f"rank 1 at {PROGRAM}:{_line_of('next')}."
    waits = f"{PROGRAM}:{_line_of('waits')}"
    for rank in (0, 1):
        error, after, error_of_handles, *after_joins = launched.lines(rank)
        assert error.startswith("Mismatched ALLREDUCE tensor shapes: "), error
        assert "(operation 'allreduce.noname.0', ranks 0 and 1)" in error
        assert "each is its rank's unnamed allreduce operation number 1:" in error
        assert WHAT_TO_DO in error
        assert error.endswith(called)
        assert after == "[2.0, 2.0]"
        assert error_of_handles.endswith(f"Called by rank 0 at {waits}; rank 1 at {waits}.")
        # Who has joined early has started fewer, and is in step again.
        sums = ["[2.0, 2.0, 2.0]", "[2.0, 2.0]", "[2.0, 2.0, 2.0, 2.0]", "[2.0, 2.0]"]
        assert after_joins == sums, launched.err


@pytest.mark.parametrize("case", ["barrier", "end_with_handles", "end"])
def test_counts_that_differ_are_said_when_all_ranks_are_there(launch: Launch, case: str) -> None:
    launched = launch(2, "out_of_step.py", case)
    if case != "end":
        warnings = "\n".join(launched.lines(0, "stderr"))
        event = (
            "All ranks have come to a barrier" if case == "barrier" else "Rank 1 has ended the job"
        )
        assert f"{event} before all ranks had started the same unnamed operations." in warnings
        assert "Unnamed allreduce operations started so far: 4 by rank 0; 3 by rank 1." in warnings
        assert warnings.count(WHAT_TO_DO) == 1
    if case != "barrier":
        (error,) = launched.lines(0)
        assert error.startswith("Horovod has been shut down.")
        assert "It was this rank's unnamed allreduce operation number 4, which not all" in error
        assert WHAT_TO_DO in error
        assert not launched.lines(1)


def test_the_warning_can_be_switched_off(launch: Launch) -> None:
    launched = launch(2, "out_of_step.py", "barrier", env={"HOROVOD_STALL_CHECK_DISABLE": "1"})
    assert launched.lines(0) == ["passed"]
    assert "unnamed" not in launched.err


def test_a_stall_tells_how_many_each_rank_has_started(launch: Launch) -> None:
    launched = launch(
        *(2, "out_of_step.py", "stall"),
        env={"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.4", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "3"},
    )
    for rank in (0, 1):
        (error,) = launched.lines(rank)
        assert re.search(r"allreduce 'allreduce\.noname\.2', since \d+ s: missing ranks: 1", error)
        assert "Unnamed allreduce operations started so far: 3 by rank 0; 2 by rank 1." in error
        assert WHAT_TO_DO in error
