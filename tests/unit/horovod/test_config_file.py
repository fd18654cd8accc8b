"""Settings files of `horovodrun`."""

from pathlib import Path

import pytest

from horovod.runner.arguments import make_parser, parse_args
from horovod.runner.config_file import FLAGS, ConfigFileError, flags_of, read_flags
from horovod.runner.variable_flags import variables_of

FILE = """\
---
# Horovod's sections
params:
    fusion_threshold_mb: 32
    cycle-time-ms: 3.5   # a comment
    hierarchical_allreduce: true
autotune:
  enabled: no
  log_file: "my log # 1.csv"

timeline:
  filename: 'trace.json'
  mark_cycles: True
stall_check:
  enabled: false
  warning_time_seconds: 120
logging:
  level: INFO
  hide_timestamp: false
"""


def test_a_file_says_what_flags_say(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    job = ["-np", "2", "--no-hierarchical-allreduce", "--config-file", str(file)]
    args = parse_args([*job, "--log-level", "ERROR", "python", "x.py", "--log-level", "mine"])
    assert variables_of(args) == {
        "HOROVOD_FUSION_THRESHOLD": str(32 * 2**20),
        "HOROVOD_CYCLE_TIME": "3.5",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",  # the command line comes first, wherever it says so
        "HOROVOD_AUTOTUNE": "0",
        "HOROVOD_AUTOTUNE_LOG": "my log # 1.csv",
        "HOROVOD_TIMELINE": "trace.json",
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "120",
        "HOROVOD_LOG_LEVEL": "ERROR",
        "HOROVOD_LOG_HIDE_TIME": "0",
    }
    assert args.command == ["python", "x.py", "--log-level", "mine"]


def test_every_key_is_a_flag() -> None:
    known = set(make_parser()._option_string_actions)
    for section in FLAGS.values():
        for flag in section.values():
            assert set((flag,) if isinstance(flag, str) else flag) - {""} <= known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeline:\n  mark_cycles: maybe", "line 2: `mark_cycles` is 0 or another whole number"),
        ("timeline:\n  filename: [a]", "line 2: `filename` needs one plain or quoted value"),
        ("timeline: on", "line 1: `timeline` is no section"),
        ("timeline: {filename: {a: b}}", "line 1: `timeline` is not of the form {key: value, …}"),
        ("controller: smoke", "`controller` is one of gloo, mpi, jsrun, not 'smoke'"),
        ("  filename: a", "line 1 is indented, and in no section"),
        ("- a", "line 1 is neither `section:` nor `key: value`"),
    ],
)
def test_what_is_not_understood_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigFileError) as refusal:
        flags_of(text)
    assert message in str(refusal.value)


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse_args(["-np", "2", "--config-file", "/no/such/file", "x"])
    assert end.value.code == 2
    assert "--config-file /no/such/file: it cannot be read" in capsys.readouterr().err


def test_a_comment_may_follow_a_quoted_value() -> None:
    said = flags_of('timeline:\n  filename: "trace.json"  # where\n')
    assert said.flags == ["--timeline-filename=trace.json"]


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("controller: gloo", ["--gloo"]),
        ("controller: MPI  # as Horovod writes it", ["--mpi"]),
        ("controller: jsrun", ["--jsrun"]),
        ("controller:\n  gloo: 1", ["--gloo"]),
        ("logging:\n  with_timestamp: false", ["--log-without-timestamp"]),
        ("logging:\n  with_timestamp: on", ["--log-with-timestamp"]),
        ("timeline:\n  filename: null\n  mark_cycles: ~\n  all_ranks:", []),
        ("timeline: ~\nparams:  # nothing\nautotune: {}", []),
        (
            "params: {'fusion_threshold_mb': 32, hierarchical_allreduce: no, cycle-time-ms: } # a",
            ["--fusion-threshold-mb=32", "--no-hierarchical-allreduce"],
        ),
        ('timeline: {filename: "a, b.json",}', ["--timeline-filename=a, b.json"]),
        ("library_options:\n  mpi_args: --bind-to core", ["--mpi-args=--bind-to core"]),
    ],
)
def test_what_horovods_files_say(text: str, flags: list[str]) -> None:
    assert flags_of(text).flags == flags
    assert flags_of(text).passed_over == []


def test_what_is_unknown_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "verbose: true\n"
        "hosts:\n- a\n- b: [1]\n"
        "params:\n  fusion: {a: 1}\n  deep:\n    deeper: |\n      text\n  cache_capacity: 7\n"
        "more:\n  - filename: x\n"
        "timeline: {colour: red, filename: t.json}\n"
    )
    args = parse_args(["-np", "2", "--config-file", str(file), "python", "x.py"])
    assert variables_of(args) == {"HOROVOD_CACHE_CAPACITY": "7", "HOROVOD_TIMELINE": "t.json"}
    assert capsys.readouterr().err.splitlines() == [
        f"horovodrun: warning: --config-file {file}: {line}; it is passed over"
        for line in (
            f"line 1: there is no section `verbose`, but {', '.join(FLAGS)}",
            f"line 2: there is no section `hosts`, but {', '.join(FLAGS)}",
            f"line 6: `params` has no `fusion`, but {', '.join(FLAGS['params'])}",
            f"line 7: `params` has no `deep`, but {', '.join(FLAGS['params'])}",
            f"line 11: there is no section `more`, but {', '.join(FLAGS)}",
            f"line 13: `timeline` has no `colour`, but {', '.join(FLAGS['timeline'])}",
        )
    ]


@pytest.mark.parametrize(("flag", "mpi"), [("--gloo", False), ("--mpi", True)])
def test_the_controller_of_the_command_line_counts(tmp_path: Path, flag: str, *, mpi: bool) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "controller:\n  gloo: true\n"
        if mpi
        else "controller:\n  mpi: true\nlibrary_options:\n  mpi_args: --bind-to core\n"
    )
    args = parse_args(["-np", "2", "--config-file", str(file), flag, "python", "x.py"])
    assert (args.use_mpi, args.use_gloo) == (mpi, not mpi)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbfparams:\r\n  cycle_time_ms: 5\r\n")
    assert read_flags(str(path)).flags == ["--cycle-time-ms=5"]
