"""The settings file of `horovodrun --config-file`: Horovod's sections, as the flags they stand for.

The file is YAML, of which only what such a file needs is understood: sections, as blocks or as
`{key: value}` in one line, and in them keys with one plain or quoted value each.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from horovod._setting_values import SWITCH, switch

# Section and key to the flag; of a switch, the flags for true and for false ("" for none).
FLAGS: Mapping[str, Mapping[str, str | tuple[str, str]]] = {
    # In Horovod one word, as in `controller: gloo`.
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
        "with_timestamp": ("--log-with-timestamp", "--log-without-timestamp"),
        "hide_timestamp": ("--log-without-timestamp", "--log-with-timestamp"),
    },
}
_LINE = re.compile(r"( *)([\"']?)([A-Za-z_][\w.-]*)\2:(?: +(.*))?")
_VALUE = re.compile(
    r"(?:\"([^\"\\]*)\"|'([^']*)'|([^\s\"'\[\]{}&*!|>%@`#,].*?))"
    r"(?: +#.*)?"
)
_MAP = re.compile(r"\{ *(.*?),? *\}(?: +#.*)?")
_ITEM = re.compile(
    r" *([\"']?)([A-Za-z_][\w.-]*)\1:(?: +(\"[^\"]*\"|'[^']*'|[^\"'{}\[\],]*))? *(?:,|$)"
)
_NULL = re.compile(r"(?:~|null|Null|NULL|)(?: *#.*)?")


class ConfigFileError(ValueError):
    """The file cannot be read, or says something that is not understood."""


@dataclass
class FileFlags:
    """What a settings file says.

    Attributes:
        flags: the command line that says the same.
        passed_over: what Horovod does not look at either, a sentence for each.
    """

    flags: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def flags_of(text: str) -> FileFlags:
    """Reads a settings file; a key without a value, or with null, says nothing.

    Raises:
        ConfigFileError: a line, or the value of a key, is not understood; the message names it.
    """
    said = FileFlags()
    section = ""
    unknown: int | None = None  # how far what is passed over is indented
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare in ("", "---", "...") or bare.startswith("#"):
            continue
        depth = len(line) - len(line.lstrip(" "))
        if unknown is not None and (depth, bare.startswith("-")) > (unknown, False):
            continue
        unknown = None
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            raise ConfigFileError(f"line {number} is neither `section:` nor `key: value`")
        key, written = found[3].replace("-", "_"), found[4] or ""
        if depth:
            if not section:
                raise ConfigFileError(f"line {number} is indented, and in no section")
            known = _add(said, number, section, key, written)
        else:
            section = key
            known = _begin(said, number, section, written)
        unknown = None if known else depth
    return said


def _begin(said: FileFlags, number: int, section: str, written: str) -> bool:
    """Takes a section's first line; False if it is unknown."""
    if section not in FLAGS:
        said.passed_over.append(
            f"line {number}: there is no section `{section}`, but {', '.join(FLAGS)}"
        )
        return False
    if _NULL.fullmatch(written):
        return True
    if (inline := _MAP.fullmatch(written)) is not None:
        for key, value in _items(number, section, inline[1]):
            _add(said, number, section, key, value)
    elif section == "controller":
        name = _value_of(number, section, written).lower()
        if name not in FLAGS[section]:
            known = ", ".join(FLAGS[section])
            raise ConfigFileError(f"line {number}: `{section}` is one of {known}, not {name!r}")
        _add(said, number, section, name, "true")
    else:
        raise ConfigFileError(f"line {number}: `{section}` is no section")
    return True


def _items(number: int, section: str, text: str) -> Iterator[tuple[str, str]]:
    """Keys and values between braces."""
    at = 0
    while at < len(text):
        item = _ITEM.match(text, at)
        if item is None:
            raise ConfigFileError(
                f"line {number}: `{section}` is not of the form {{key: value, …}}"
            )
        yield item[2].replace("-", "_"), (item[3] or "").strip()
        at = item.end()


def _value_of(number: int, key: str, written: str) -> str:
    value = _VALUE.fullmatch(written)
    if value is None:
        raise ConfigFileError(f"line {number}: `{key}` needs one plain or quoted value")
    return value[1] or value[2] or value[3] or ""


def _add(said: FileFlags, number: int, section: str, key: str, written: str) -> bool:
    """Adds the flag of a key; False if it is unknown."""
    flag = FLAGS[section].get(key)
    if flag is None:
        said.passed_over.append(
            f"line {number}: `{section}` has no `{key}`, but {', '.join(FLAGS[section])}"
        )
        return False
    if _NULL.fullmatch(written):
        return True
    value = _value_of(number, key, written)
    if isinstance(flag, str):
        # In one word, a value may begin as flags do: mpi_args.
        said.flags.append(f"{flag}={value}")
        return True
    try:
        chosen = flag[0] if switch(value) else flag[1]
    except ValueError:
        raise ConfigFileError(f"line {number}: `{key}` is {SWITCH}, not {value!r}") from None
    said.flags += [chosen] if chosen else []
    return True


def read_flags(path: str) -> FileFlags:
    """Reads the settings file at a path.

    Raises:
        ConfigFileError: see `flags_of`; or the file cannot be read.
    """
    try:
        return flags_of(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"it cannot be read: {error}") from None
