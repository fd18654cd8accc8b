"""The PyTorch front end on GPUs by itself where a rank has one, and the same checks on the CPU."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collective.launching import Suite, cases

pytestmark = pytest.mark.torch

# One rank for machines with a single GPU: NCCL gives each rank one of its own.
RANKS_OF_A_HOST = (1, 2)
GPUS = ("/dev/nvidiactl", "/dev/kfd")


@pytest.mark.parametrize(
    ("suite", "check"), cases("device_checks.py", *((n, "auto") for n in RANKS_OF_A_HOST))
)
def test_devices(suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"


def test_it_was_a_gpu() -> None:
    if not any(Path(path).exists() for path in GPUS):
        pytest.skip("no GPU")
    from horovod._native import _buildinfo  # noqa: PLC0415 - of a build

    if not _buildinfo.GPU:
        pytest.skip("no GPU code in this build; ./dev gpu installs one that has")
    import torch  # noqa: PLC0415 - takes seconds

    assert torch.cuda.is_available(), "PyTorch sees no GPU: is it the build for the CPU?"
