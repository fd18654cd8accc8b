"""Python threads of one rank that use the library at once, with a GIL and without."""

from collections.abc import Callable, Sequence

import pytest

from collective.conftest import Launch
from collective.launching import Suite, cases


@pytest.mark.parametrize(("suite", "check"), cases("thread_checks.py", (2, "shm"), (2, "tcp")))
def test_threads(suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_job_may_start_and_end_while_threads_use_it(launch: Launch, ranks: int) -> None:
    launched = launch(ranks, "start_and_stop.py")
    assert launched.code == 0, launched.err
    sums = [int(line) for rank in range(ranks) for line in launched.lines(rank)]
    assert len(sums) == ranks, launched.err
    # On two ranks one of them ends each of 15 jobs, after a sum.
    assert ranks == 1 or sum(sums) >= 15


@pytest.mark.torch
def test_operations_that_are_started_while_the_job_ends_are_not_lost(launch: Launch) -> None:
    launched = launch(1, "start_while_it_ends.py")
    assert launched.code == 0, launched.err
    assert int(launched.lines(0)[-1]) > 0


def test_a_process_ends_when_its_threads_have_come_back(launch: Launch) -> None:
    launched = launch(2, "daemon_waits.py")
    assert launched.code == 0, launched.err
    assert launched.lines(0) == launched.lines(1) == ["back"]
