"""The settings file of `horovodrun --config-file`: Horovod's sections, as the flags they stand for.

The file is YAML, of which only what such a file needs is understood: sections, and in them keys
with one plain or quoted value each.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

# Section and key to the flag; of a switch, the flags for true and for false ("" for none).
FLAGS: Mapping[str, Mapping[str, str | tuple[str, str]]] = {
    "controller": {"gloo": ("--gloo", ""), "mpi": ("--mpi", ""), "jsrun": ("--jsrun", "")},
    "params": {
        "fusion_threshold_mb": "--fusion-threshold-mb",
        "cycle_time_ms": "--cycle-time-ms",
        "cache_capacity": "--cache-capacity",
        "hierarchical_allreduce": ("--hierarchical-allreduce", "--no-hierarchical-allreduce"),
        "hierarchical_allgather": ("--hierarchical-allgather", "--no-hierarchical-allgather"),
        "torus_allreduce": ("--torus-allreduce", "--no-torus-allreduce"),
    },
    "autotune": {
        "enabled": ("--autotune", "--no-autotune"),
        "log_file": "--autotune-log-file",
        "warmup_samples": "--autotune-warmup-samples",
        "steps_per_sample": "--autotune-steps-per-sample",
        "bayes_opt_max_samples": "--autotune-bayes-opt-max-samples",
        "gaussian_process_noise": "--autotune-gaussian-process-noise",
    },
    "timeline": {
        "filename": "--timeline-filename",
        "mark_cycles": ("--timeline-mark-cycles", "--no-timeline-mark-cycles"),
        "all_ranks": ("--timeline-all-ranks", "--no-timeline-all-ranks"),
    },
    "stall_check": {
        "enabled": ("--stall-check", "--no-stall-check"),
        "warning_time_seconds": "--stall-check-warning-time-seconds",
        "shutdown_time_seconds": "--stall-check-shutdown-time-seconds",
    },
    "library_options": {
        "mpi_threads_disable": ("--mpi-threads-disable", "--no-mpi-threads-disable"),
        "mpi_args": "--mpi-args",
        "binding_args": "--binding-args",
        "num_nccl_streams": "--num-nccl-streams",
        "thread_affinity": "--thread-affinity",
        "gloo_timeout_seconds": "--gloo-timeout-seconds",
    },
    "logging": {
        "level": "--log-level",
        "hide_timestamp": ("--log-without-timestamp", "--log-with-timestamp"),
    },
}
_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LINE = re.compile(r"( *)([A-Za-z][\w-]*):(?: +(.*))?")
_VALUE = re.compile(
    r"(?:\"([^\"\\]*)\"|'([^']*)'|([^\s\"'\[\]{}&*!|>%@`#,].*?))"
    r"(?: +#.*)?"
)


class ConfigFileError(ValueError):
    """The file cannot be read, or says something that is not understood."""


def _entries(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Line number, section, key and value of each setting.

    Raises:
        ConfigFileError: a line is no section and no setting.
    """
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() in ("", "---") or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            raise ConfigFileError(f"line {number} is neither `section:` nor `key: value`")
        indent, key, written = found[1], found[2].replace("-", "_"), found[3] or ""
        if not indent:
            if written and not written.startswith("#"):
                raise ConfigFileError(f"line {number}: `{key}` is no section")
            section = key
            continue
        if not section:
            raise ConfigFileError(f"line {number} is indented, and in no section")
        value = _VALUE.fullmatch(written)
        if value is None:
            raise ConfigFileError(f"line {number}: `{key}` needs one plain or quoted value")
        yield number, section, key, value[1] or value[2] or value[3] or ""


def flags_of(text: str) -> list[str]:
    """The command line that says the same as a settings file.

    Raises:
        ConfigFileError: a section, key or value is not understood; the message names the line.
    """
    flags: list[str] = []
    for number, section, key, value in _entries(text):
        if section not in FLAGS:
            raise ConfigFileError(
                f"line {number}: there is no section `{section}`, but {', '.join(FLAGS)}"
            )
        flag = FLAGS[section].get(key)
        if flag is None:
            raise ConfigFileError(
                f"line {number}: `{section}` has no `{key}`, but {', '.join(FLAGS[section])}"
            )
        if isinstance(flag, str):
            # In one word, a value may begin as flags do: mpi_args.
            flags += [f"{flag}={value}"] if value.startswith("-") else [flag, value]
            continue
        switch = _SWITCH.get(value.lower())
        if switch is None:
            raise ConfigFileError(f"line {number}: `{key}` is true or false, not {value!r}")
        flags += [chosen] if (chosen := flag[0] if switch else flag[1]) else []
    return flags


def read_flags(path: str) -> list[str]:
    """The command line that says the same as a file.

    Raises:
        ConfigFileError: see `flags_of`; or the file cannot be read.
    """
    try:
        return flags_of(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"it cannot be read: {error}") from None
