"""Settings files of `horovodrun`."""

from pathlib import Path

import pytest

from horovod.runner.arguments import make_parser, parse_args
from horovod.runner.config_file import FLAGS, ConfigFileError, flags_of

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
    assert args.variables == {
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
        ("params:\n  fusion: 1", "line 2: `params` has no `fusion`, but fusion_threshold_mb"),
        ("parameters:\n  x: 1", "line 2: there is no section `parameters`, but controller"),
        ("timeline:\n  mark_cycles: 2", "line 2: `mark_cycles` is true or false, not '2'"),
        ("timeline:\n  filename: [a]", "line 2: `filename` needs one plain or quoted value"),
        ("timeline:\n  filename:", "line 2: `filename` needs one plain or quoted value"),
        ("timeline: on", "line 1: `timeline` is no section"),
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
    assert flags_of('timeline:\n  filename: "trace.json"  # where\n') == [
        "--timeline-filename",
        "trace.json",
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
    assert (args.mpi, args.gloo) == (mpi, not mpi)
