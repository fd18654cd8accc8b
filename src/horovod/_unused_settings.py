"""Variables of Horovod's that change nothing here, each with the reason."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from horovod import _chosen_settings, _settings
from horovod._setting_values import (
    COUNT,
    SHARE,
    SWITCH,
    Setting,
    count,
    share,
    switch,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Unused:
    """A variable of Horovod's that changes nothing here; its value is checked nevertheless.

    Attributes:
        reason: why it has no effect, for whoever sets it.
    """

    setting: Setting[int] | Setting[str] | Setting[float] | Setting[bool]
    reason: str


_NO_NCCL = "collectives on GPUs have one way to run, NCCL's own, on one stream"
_NO_TENSORFLOW = "there is no front end for TensorFlow"
_NO_CCL = "oneCCL is not in this build"
_NO_MPI_OPERATIONS = "MPI moves bytes here, and runs no collectives of its own"
NO_MPI_JOB = (
    "the ranks of this job have not met through MPI, which they do under mpirun and"
    " horovodrun --mpi"
)
_NO_PROCESS = "the autotuner's search has no Gaussian process"


def _unused(name: str, parse: Callable[[str], T], accepted: str, default: T, reason: str) -> Unused:
    setting: Any = Setting(name, parse, accepted, default, f"without effect: {reason}")
    return Unused(setting, reason)


def _unused_switch(name: str, reason: str) -> Unused:
    return _unused(name, switch, SWITCH, default=False, reason=reason)


UNUSED: tuple[Unused, ...] = (
    _unused_switch("HOROVOD_TORUS_ALLREDUCE", _NO_NCCL),
    _unused("HOROVOD_NUM_NCCL_STREAMS", count, COUNT, 1, _NO_NCCL),
    _unused_switch("HOROVOD_ENABLE_ASYNC_COMPLETION", _NO_NCCL),
    _unused("HOROVOD_BATCH_D2D_MEMCOPIES", switch, SWITCH, True, _NO_NCCL),  # noqa: FBT003
    _unused_switch("HOROVOD_DISABLE_NVTX_RANGES", "no NVTX ranges are written"),
    _unused_switch("HOROVOD_ENABLE_XLA_OPS", _NO_TENSORFLOW),
    _unused("HOROVOD_CCL_CACHE", switch, SWITCH, False, _NO_CCL),  # noqa: FBT003
    _unused("HOROVOD_CCL_BGT_AFFINITY", str, "core numbers", "", _NO_CCL),
    _unused("HOROVOD_ADASUM_MPI_CHUNK_SIZE", count, COUNT, 2**30, _NO_MPI_OPERATIONS),
    _unused("HOROVOD_THREAD_AFFINITY", str, "core numbers", "", "threads are not bound to cores"),
    _unused("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", share, SHARE, 0.8, _NO_PROCESS),
)


def require_accepted(environment: Mapping[str, str]) -> None:
    """Checks all variables, also those that this process has no use for, or that have no effect.

    Raises:
        SettingError: a value is not accepted.
    """
    for setting in (*_settings.SETTINGS, *(unused.setting for unused in UNUSED)):
        setting.read(environment)


def describe_unused(environment: Mapping[str, str], *, mpi: bool) -> list[str]:
    """A line for each variable that asks for something which this build or job does not do.

    Args:
        environment: variables of this process.
        mpi: whether the ranks have met through MPI.

    Raises:
        SettingError: a value is not accepted.
    """
    idle = [
        (unused.setting.name, unused.reason)
        for unused in UNUSED
        if unused.setting.read(environment) != unused.setting.default
    ]
    if _chosen_settings.wishes_for_mpi(environment) and not mpi:
        idle.append((_settings.CPU_OPERATIONS.name, NO_MPI_JOB))
    if _settings.CPU_OPERATIONS.read(environment) == "ccl":
        idle.append(
            (
                _settings.CPU_OPERATIONS.name,
                f"{_NO_CCL}, and what moves tensors is chosen as without it",
            )
        )
    return [f"{name}={environment[name]} has no effect: {reason}." for name, reason in idle]
