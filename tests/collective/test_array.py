"""The front end for arrays, on real ranks over every transport."""

from collections.abc import Callable, Sequence

import pytest

from collective.launching import Suite, cases

FILES = ("array_checks.py", "array_group_checks.py")


@pytest.mark.parametrize(
    ("suite", "check"),
    cases(FILES, (2, "shm"), (2, "tcp"), (3, "tcp"), (4, "shm")),
)
def test_array(suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"
