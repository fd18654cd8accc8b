"""Flags of `horovodrun` that stand for environment variables of the workers."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from horovod import _settings
from horovod._setting_values import Setting, SettingError
from horovod._unused_settings import UNUSED

BYTES_PER_MEBIBYTE = 2**20


@dataclass(frozen=True)
class VariableFlag:
    """A flag and what it sets.

    Attributes:
        name: the attribute of the parsed arguments that holds its value, as Horovod calls it.
        constant: the value of a flag without argument; None if it takes one.
        parse: turns the argument into the value.
        convert: turns the value into the variable's text; None leaves the variable alone.
        help: for `--help`, which leaves out a flag without it.
        metavar: what `--help` calls the argument.
    """

    flag: str
    name: str
    variable: str
    help: str | None = None
    constant: bool | None = None
    parse: Callable[[str], Any] = str
    convert: Callable[[Any], str | None] = str
    metavar: str = "N"

    def text_of(self, value: Any) -> str | None:
        """The variable's text for a value, which is checked as the workers will.

        Raises:
            SettingError: it is not accepted.
            ValueError: it is no number.
        """
        text = self.convert(value)
        if text is not None and (read := _readers().get(self.variable)) is not None:
            read({self.variable: text})
        return text


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _not_below_zero(text: str) -> int:
    value = int(text)
    if value < 0:
        raise SettingError(f"{value} is not accepted: it must be >= 0")
    return value


def _mebibytes(value: float) -> str:
    return str(int(value * BYTES_PER_MEBIBYTE))


def _switch(value: object) -> str:
    return "1" if value else "0"


def _switch_off(value: object) -> str:
    return "0" if value else "1"


def _only_on(value: object) -> str | None:
    return "1" if value else None


def _numeric(flag: str, variable: str, help_text: str | None = None) -> VariableFlag:
    return VariableFlag(flag, _attribute(flag), variable, help_text, parse=_number)


def _text(flag: str, variable: str, metavar: str, help_text: str) -> VariableFlag:
    return VariableFlag(flag, _attribute(flag), variable, help_text, metavar=metavar)


def _with_default(setting: Setting[Any], text: str | None = None) -> str:
    """What a flag is for, by default as its variable; and the variable's default."""
    default = f"{setting.default:g}" if isinstance(setting.default, float) else setting.default
    return f"{text or setting.meaning} (default: {default})"


def _attribute(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _switches(
    on: str,
    off: str,
    variable: str,
    convert: Callable[[object], str] = _switch,
    *,
    on_help: str | None = None,
    off_help: str | None = None,
) -> tuple[VariableFlag, VariableFlag]:
    """A pair of flags; the one that changes the default gets the help."""
    name = _attribute(on)
    return (
        VariableFlag(on, name, variable, on_help, constant=True, convert=convert),
        VariableFlag(off, name, variable, off_help, constant=False, convert=convert),
    )


_LOG_TIMES = _switches(
    "--log-with-timestamp",
    "--log-without-timestamp",
    "HOROVOD_LOG_HIDE_TIME",
    _switch_off,
    off_help="leave the time out of what the core writes to stderr",
)
_OLD_LOG_TIMES = ("--no-log-hide-timestamp", "--log-hide-timestamp")
FLAGS: tuple[VariableFlag, ...] = (
    VariableFlag(
        "--fusion-threshold-mb",
        "fusion_threshold_mb",
        "HOROVOD_FUSION_THRESHOLD",
        "put small allreduces together up to so many MiB; 0 for none",
        parse=_number,
        convert=_mebibytes,
    ),
    _numeric(
        "--gloo-timeout-seconds",
        "HOROVOD_GLOO_TIMEOUT_SECONDS",
        "Horovod's other name for --start-timeout, which comes first",
    ),
    _numeric(
        "--cycle-time-ms",
        "HOROVOD_CYCLE_TIME",
        _with_default(_settings.CYCLE_TIME),
    ),
    _numeric(
        "--cache-capacity",
        "HOROVOD_CACHE_CAPACITY",
        _with_default(_settings.CACHE_CAPACITY),
    ),
    *_switches(
        "--hierarchical-allreduce",
        "--no-hierarchical-allreduce",
        "HOROVOD_HIERARCHICAL_ALLREDUCE",
        off_help="do not reduce inside hosts first where each of several has several ranks",
    ),
    *_switches(
        "--hierarchical-allgather",
        "--no-hierarchical-allgather",
        "HOROVOD_HIERARCHICAL_ALLGATHER",
        off_help="the same for allgather",
    ),
    *_switches("--torus-allreduce", "--no-torus-allreduce", "HOROVOD_TORUS_ALLREDUCE"),
    *_switches(
        "--autotune",
        "--no-autotune",
        "HOROVOD_AUTOTUNE",
        on_help="look for the fastest fusion threshold and gathering time while the job runs",
    ),
    _text(
        "--autotune-log-file",
        "HOROVOD_AUTOTUNE_LOG",
        "FILE",
        "with --autotune: file to which rank 0 writes what it has measured",
    ),
    _numeric(
        "--autotune-warmup-samples",
        "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
        _with_default(_settings.AUTOTUNE_WARMUP_SAMPLES),
    ),
    _numeric(
        "--autotune-steps-per-sample",
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
        _with_default(_settings.AUTOTUNE_STEPS_PER_SAMPLE),
    ),
    _numeric(
        "--autotune-bayes-opt-max-samples",
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
        _with_default(_settings.AUTOTUNE_MOST_SAMPLES),
    ),
    _numeric("--autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"),
    _text(
        "--timeline-filename",
        "HOROVOD_TIMELINE",
        "FILE",
        "file to which rank 0 records operations, for Chrome's and Perfetto's viewers",
    ),
    *_switches(
        "--timeline-mark-cycles",
        "--no-timeline-mark-cycles",
        "HOROVOD_TIMELINE_MARK_CYCLES",
        on_help="mark each answer of the coordinator in the timeline",
    ),
    *_switches(
        "--timeline-all-ranks",
        "--no-timeline-all-ranks",
        "HOROVOD_TIMELINE_ALL_RANKS",
        on_help="every rank records a timeline, rank 1 that of trace.json to trace.rank1.json",
    ),
    *_switches(
        "--no-stall-check",
        "--stall-check",
        "HOROVOD_STALL_CHECK_DISABLE",
        on_help="rank 0 never says which ranks others wait for",
    ),
    _numeric(
        "--stall-check-warning-time-seconds",
        "HOROVOD_STALL_CHECK_TIME_SECONDS",
        _with_default(
            _settings.STALL_CHECK_TIME, "seconds until rank 0 says which ranks others wait for"
        ),
    ),
    _numeric(
        "--stall-check-shutdown-time-seconds",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
        "seconds until the job ends because ranks wait for others (default: never)",
    ),
    *_switches(
        "--mpi-threads-disable",
        "--no-mpi-threads-disable",
        "HOROVOD_MPI_THREADS_DISABLE",
        on_help="start MPI for one thread at a time",
    ),
    _numeric("--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS"),
    replace(
        _numeric("--thread-affinity", "HOROVOD_THREAD_AFFINITY"),
        parse=_not_below_zero,  # of the variable, Horovod takes lists too
    ),
    _text(
        "--log-level",
        "HOROVOD_LOG_LEVEL",
        "LEVEL",
        _with_default(
            _settings.LOG_LEVEL,
            f"write to stderr what is as serious as this: {', '.join(_settings.LOG_LEVELS)}",
        ),
    ),
    *_LOG_TIMES,
    *(replace(_LOG_TIMES[at], flag=flag, help=None) for at, flag in enumerate(_OLD_LOG_TIMES)),
    VariableFlag(
        "--tcp",
        "tcp_flag",
        "NCCL_IB_DISABLE",
        "NCCL uses no InfiniBand",
        constant=True,
        convert=_only_on,
    ),
)


def _readers() -> Mapping[str, Callable[[Mapping[str, str]], object]]:
    used = {setting.name: setting.read for setting in _settings.SETTINGS}
    return {**used, **{item.setting.name: item.setting.read for item in UNUSED}}


class _Set(argparse.Action):
    """Keeps a value that the workers will accept."""

    def __init__(self, option_strings: Sequence[str], dest: str, meant: VariableFlag) -> None:
        super().__init__(
            option_strings,
            dest,
            nargs=None if meant.constant is None else 0,
            metavar=meant.metavar,
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
            value = meant.parse(values) if meant.constant is None else meant.constant
            meant.text_of(value)
        except SettingError as error:
            parser.error(f"{option_string}: {error}")
        except (OverflowError, ValueError):
            parser.error(f"{option_string}: {values!r} is not a number")
        setattr(namespace, self.dest, value)


def add_variable_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags.

    `--help` lists neither those that have no effect in this build, as rank 0 says of each, nor
    those that say what is so by default.
    """
    group = parser.add_argument_group("tuning")
    for meant in FLAGS:
        group.add_argument(meant.flag, action=_Set, dest=meant.name, meant=meant)


def variables_of(args: argparse.Namespace) -> dict[str, str]:
    """The variables that some arguments stand for.

    Args:
        args: as `parse_args` returns them.

    Raises:
        SettingError: a value is not accepted.
    """
    values = {meant: getattr(args, meant.name) for meant in FLAGS}
    texts = {
        meant.variable: meant.text_of(value) for meant, value in values.items() if value is not None
    }
    return {variable: text for variable, text in texts.items() if text is not None}
