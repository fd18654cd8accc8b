"""Flags of `horovodrun` that stand for environment variables of the workers."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horovod import _settings
from horovod._setting_values import SettingError
from horovod._unused_settings import UNUSED

BYTES_PER_MEBIBYTE = 2**20


@dataclass(frozen=True)
class VariableFlag:
    """A flag and what it sets.

    Attributes:
        constant: the value of a flag without argument; None if it takes one.
        convert: turns the argument into the variable's value.
    """

    flag: str
    variable: str
    help: str | None = None
    constant: str | None = None
    convert: Callable[[str], str] = str


def _mebibytes(text: str) -> str:
    return str(int(float(text) * BYTES_PER_MEBIBYTE))


def _switches(on: str, off: str, variable: str) -> tuple[VariableFlag, VariableFlag]:
    return VariableFlag(on, variable, constant="1"), VariableFlag(off, variable, constant="0")


FLAGS: tuple[VariableFlag, ...] = (
    VariableFlag(
        "--fusion-threshold-mb",
        "HOROVOD_FUSION_THRESHOLD",
        "put small allreduces together up to so many MiB; 0 for none",
        convert=_mebibytes,
    ),
    VariableFlag(
        "--gloo-timeout-seconds",
        "HOROVOD_GLOO_TIMEOUT_SECONDS",
        "Horovod's other name for --start-timeout, which comes first",
    ),
    VariableFlag("--cycle-time-ms", "HOROVOD_CYCLE_TIME"),
    VariableFlag("--cache-capacity", "HOROVOD_CACHE_CAPACITY"),
    *_switches(
        "--hierarchical-allreduce", "--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE"
    ),
    *_switches(
        "--hierarchical-allgather", "--no-hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER"
    ),
    *_switches("--torus-allreduce", "--no-torus-allreduce", "HOROVOD_TORUS_ALLREDUCE"),
    *_switches("--autotune", "--no-autotune", "HOROVOD_AUTOTUNE"),
    VariableFlag(
        "--autotune-log-file",
        "HOROVOD_AUTOTUNE_LOG",
        "with --autotune: file to which rank 0 writes what it has measured",
    ),
    VariableFlag(
        "--autotune-warmup-samples",
        "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
        "samples before the search begins (default: 3)",
    ),
    VariableFlag(
        "--autotune-steps-per-sample",
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
        "how often the same operation runs in a sample (default: 10)",
    ),
    VariableFlag(
        "--autotune-bayes-opt-max-samples",
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
        "samples that the search takes at most (default: 20)",
    ),
    VariableFlag("--autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"),
    VariableFlag(
        "--timeline-filename",
        "HOROVOD_TIMELINE",
        "file to which rank 0 records operations, for Chrome's and Perfetto's viewers",
    ),
    *_switches(
        "--timeline-mark-cycles", "--no-timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES"
    ),
    *_switches("--timeline-all-ranks", "--no-timeline-all-ranks", "HOROVOD_TIMELINE_ALL_RANKS"),
    *_switches("--no-stall-check", "--stall-check", "HOROVOD_STALL_CHECK_DISABLE"),
    VariableFlag(
        "--stall-check-warning-time-seconds",
        "HOROVOD_STALL_CHECK_TIME_SECONDS",
        "seconds until rank 0 says which ranks others wait for (default: 60)",
    ),
    VariableFlag(
        "--stall-check-shutdown-time-seconds",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
        "seconds until the job ends for it (default: never)",
    ),
    *_switches("--mpi-threads-disable", "--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE"),
    VariableFlag("--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS"),
    VariableFlag("--thread-affinity", "HOROVOD_THREAD_AFFINITY"),
    VariableFlag("--log-level", "HOROVOD_LOG_LEVEL"),
    *_switches("--log-without-timestamp", "--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME"),
    *_switches("--log-hide-timestamp", "--no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME"),
    VariableFlag("--tcp", "NCCL_IB_DISABLE", constant="1"),
)


def _readers() -> Mapping[str, Callable[[Mapping[str, str]], object]]:
    used = {setting.name: setting.read for setting in _settings.SETTINGS}
    return {**used, **{item.setting.name: item.setting.read for item in UNUSED}}


class _Set(argparse.Action):
    """Checks a value as the workers will, and keeps it for their environment."""

    def __init__(self, option_strings: Sequence[str], dest: str, meant: VariableFlag) -> None:
        super().__init__(
            option_strings,
            dest,
            nargs=None if meant.constant is None else 0,
            default={},
            metavar="N",
            help=meant.help or argparse.SUPPRESS,
        )
        self._meant = meant

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        meant = self._meant
        try:
            value = meant.convert(values) if meant.constant is None else meant.constant
            if (read := _readers().get(meant.variable)) is not None:
                read({meant.variable: value})
        except SettingError as error:
            parser.error(f"{option_string}: {error}")
        except (OverflowError, ValueError):
            parser.error(f"{option_string}: {values!r} is not a number")
        variables = {**getattr(namespace, self.dest), meant.variable: value}
        setattr(namespace, self.dest, variables)


def add_variable_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags; what they set comes to stand in `variables`.

    Those that have no effect in this build are not listed by `--help`; rank 0 says so of each.
    """
    group = parser.add_argument_group("tuning")
    for meant in FLAGS:
        group.add_argument(meant.flag, action=_Set, dest="variables", meant=meant)
