"""The PyTorch front end, on real ranks over every transport."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collective.launching import (
    LAUNCH_SECONDS,
    RANKS,
    Suite,
    cases,
    checks_of,
    clean_environment,
    rank_environment,
)

pytestmark = pytest.mark.torch


FILES = (
    "torch_checks.py",
    "compression_checks.py",
    "torch_blocking_checks.py",
    "rounding_checks.py",
    "torch_started_checks.py",
    "grouped_call_checks.py",
    "waiting_checks.py",
    "output_checks.py",
    "tensor_memory_checks.py",
    "overlapping_memory_checks.py",
    "exchanged_memory_checks.py",
    "exchanged_by_others_checks.py",
    "forward_mode_checks.py",
    "optimizer_checks.py",
    "adasum_step_checks.py",
    "interrupted_step_checks.py",
    "signal_checks.py",
    "changed_gradient_checks.py",
    "closure_checks.py",
    "wrapping_checks.py",
    "frozen_parameter_checks.py",
    "private_attribute_checks.py",
    "optimizer_state_checks.py",
    "inner_optimizer_checks.py",
    "overlap_checks.py",
    "stay_checks.py",
    "gradient_hook_checks.py",
    "gradient_memory_checks.py",
    "gradient_place_checks.py",
    "gradient_type_checks.py",
    "shared_memory_checks.py",
    "bucket_checks.py",
    "long_copy_checks.py",
    "torch_training_checks.py",
    "sparse_shape_checks.py",
    "batch_norm_checks.py",
    "torch_group_checks.py",
    "torch_property_checks.py",
    "elastic_state_checks.py",
    "elastic_sync_checks.py",
    "elastic_late_value_checks.py",
    "elastic_newcomer_checks.py",
    "sampler_checks.py",
    "signature_checks.py",
    "wrong_number_checks.py",
)


@pytest.mark.parametrize(("suite", "check"), cases(FILES, (2, "shm"), (3, "tcp")))
def test_torch(suite: Suite, check: str, outcome: Callable[[Suite, str], Sequence[str]]) -> None:
    for rank, problem in enumerate(outcome(suite, check)):
        assert not problem, f"rank {rank}: {problem}"


def test_a_script_that_no_launcher_has_started(tmp_path: Path) -> None:
    words = map(str, (RANKS / "run_checks.py", RANKS / "alone_checks.py", tmp_path))
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=rank_environment(),
        timeout=LAUNCH_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes = json.loads((tmp_path / "0.json").read_text())
    assert outcomes == dict.fromkeys(checks_of("alone_checks.py"), "")


def test_whether_there_is_a_gpu_is_asked_of_pytorch_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import torch\ntorch.cuda.is_available = lambda: True\n"
    )
    code = (
        "from horovod.common.util import gpu_available as ask\n"
        "import sys; print(ask('torch'), ask('array'), 'horovod.torch' in sys.modules)"
    )
    environment = clean_environment()
    folders = [str(tmp_path), *filter(None, [environment.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**environment, "PYTHONPATH": os.pathsep.join(folders)}, timeout=LAUNCH_SECONDS,
    )  # fmt: skip
    assert done.stdout == "True False False\n", done.stderr
