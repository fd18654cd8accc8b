"""The PyTorch front end on GPUs by itself where a rank has one, and the same checks on the CPU."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collective.conftest import Launch
from collective.launching import PATIENT_LAUNCHER, Suite, cases
from collective.test_elastic import training_goes_on_when_ranks_are_killed
from horovod._native import _buildinfo

pytestmark = pytest.mark.torch

# One rank for machines with a single GPU: NCCL gives each rank one of its own.
RANKS_OF_A_HOST = (1, 2)
HAS_GPU = any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/kfd"))
# Some ask how much memory the GPU has left, so that no others may use it.
GROUP = "GPU" if HAS_GPU else None
FILES = (
    "device_checks.py",
    "gpu_checks.py",
    "gpu_number_checks.py",
    "gpu_shape_checks.py",
    "gpu_refusal_checks.py",
    "gpu_membership_checks.py",
    "gpu_step_checks.py",
    "gpu_stream_checks.py",
)
# Written for no device in particular.
FILES_OF_ANY_DEVICE = (
    "batch_norm_checks.py",
    "closure_checks.py",
    "compression_checks.py",
    "elastic_state_checks.py",
    "exchanged_memory_checks.py",
    "gradient_hook_checks.py",
    "gradient_memory_checks.py",
    "gradient_place_checks.py",
    "gradient_type_checks.py",
    "grouped_call_checks.py",
    "interrupted_step_checks.py",
    "optimizer_checks.py",
    "overlap_checks.py",
    "private_attribute_checks.py",
    "torch_group_checks.py",
    "torch_started_checks.py",
    "torch_training_checks.py",
)
FOR_THE_CPU = {
    "check_a_fork_is_refused": "no fork may use a GPU",
    "check_a_fork_may_not_reduce_a_group": "likewise",
    "check_buckets_are_reduced_before_backward_ends": "buckets are memory of the CPU",
    "check_buckets_have_a_gradient_for_each_parameter": "likewise",
    "check_buckets_of_ranks_whose_gradients_are_of_unlike_types_are_refused": "buckets",
    "check_gradients_that_travel_dense_are_sparse_again": "buckets",
    "check_the_stand_in_for_a_sparse_gradient_is_where_its_parameter_is": "on the device meta",
}


ON_A_GPU_BY_DEFAULT = cases(
    FILES_OF_ANY_DEVICE,
    (2, "shm"),
    shared_gpu=True,
    default_gpu=True,
    without=FOR_THE_CPU,
    group=GROUP,
)


@pytest.mark.parametrize(
    ("suite", "check"),
    [
        *cases(FILES, *((ranks, "auto") for ranks in RANKS_OF_A_HOST), group=GROUP),
        *(cases(FILES, (2, "auto"), shared_gpu=True, group=GROUP) if HAS_GPU else ()),
        *(ON_A_GPU_BY_DEFAULT if HAS_GPU else ()),
    ],
)
def test_devices(suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_a_rank_that_is_killed_while_gpus_reduce(launch: Launch, blocking: str) -> None:
    env = {"HVD_TESTS_SHARE_GPU": "1", "NCCL_COMM_BLOCKING": blocking}
    launched = launch(2, "lose_a_rank_on_gpu.py", env=env, launcher=PATIENT_LAUNCHER)
    assert launched.code == 128 + 9
    failed, after = launched.lines(0)
    assert failed.startswith("failed: rank 1 (")
    result, _, device = after.partition(" on ")
    assert result == str(2 << 20)
    assert device == "a GPU" or not (HAS_GPU and _buildinfo.GPU)


def test_an_elastic_job_goes_on_when_ranks_with_gpus_are_killed() -> None:
    if not HAS_GPU:
        pytest.skip("no GPU")
    training_goes_on_when_ranks_are_killed({"HVD_TESTS_SHARE_GPU": "1"})


def test_it_was_a_gpu() -> None:
    if not HAS_GPU:
        pytest.skip("no GPU")
    if not _buildinfo.GPU:
        pytest.skip("no GPU code in this build; ./dev gpu installs one that has")
    import torch  # noqa: PLC0415 - takes seconds

    assert torch.cuda.is_available(), "PyTorch sees no GPU: is it the build for the CPU?"
