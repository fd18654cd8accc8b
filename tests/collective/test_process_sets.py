"""Process sets, groups, join and fusion on real ranks, and what `init()` registers."""

from collections.abc import Callable, Sequence

import pytest

from collective.conftest import Launch
from collective.launching import Suite, cases

CHANGING = "changing_member_checks.py"


@pytest.mark.parametrize(("suite", "check"), cases("process_set_checks.py", (4, "shm"), (3, "tcp")))
def test_process_sets(
    suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]
) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"


@pytest.mark.torch
@pytest.mark.parametrize(("suite", "check"), cases(CHANGING, (4, "shm"), (3, "tcp")))
def test_members_that_change(
    suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]
) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"


def test_sets_given_to_init(launch: Launch) -> None:
    launched = launch(3, "static_process_sets.py")
    assert launched.code == 0, launched.err
    for rank in range(3):
        assert launched.lines(rank) == ["ok"]
