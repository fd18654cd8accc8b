"""The PyTorch front end, on real ranks over every transport."""

from collections.abc import Callable, Sequence

import pytest

from collective.launching import Suite, cases

pytestmark = pytest.mark.torch


CONFIGURATIONS = ((2, "shm"), (3, "tcp"))


@pytest.mark.parametrize(
    ("suite", "check"),
    [
        case
        for file in ("torch_checks.py", "optimizer_checks.py", "torch_training_checks.py")
        for case in cases(file, *CONFIGURATIONS)
    ],
)
def test_torch(suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"
