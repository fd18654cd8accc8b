"""The PyTorch front end, on real ranks over every transport."""

from collections.abc import Callable, Sequence

import pytest

from collective.launching import Suite, cases

pytestmark = pytest.mark.torch


FILES = (
    "torch_checks.py",
    "torch_blocking_checks.py",
    "waiting_checks.py",
    "optimizer_checks.py",
    "shared_memory_checks.py",
    "bucket_checks.py",
    "torch_training_checks.py",
    "torch_group_checks.py",
    "torch_property_checks.py",
    "elastic_state_checks.py",
    "signature_checks.py",
)


@pytest.mark.parametrize(("suite", "check"), cases(FILES, (2, "shm"), (3, "tcp")))
def test_torch(suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"
