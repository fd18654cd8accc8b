"""Autotuning of a whole job: what is logged, and that the job's results stay right."""

import sys
from pathlib import Path

from collective.launching import RANKS, horovodrun

HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score"
)


def _tuned(folder: Path, chosen: str, **variables: str) -> list[list[str]]:
    """The rows of the log of a job that has one sample to warm up and four to search."""
    log = folder / "autotune.csv"
    config = folder / "config.yaml"
    config.write_text(
        f"params:\n  {chosen}\nautotune:\n  enabled: true\n  log_file: {log}\n"
        "  warmup_samples: 1\n  steps_per_sample: 2\n  bayes_opt_max_samples: 4\n"
    )
    launched = horovodrun(
        *("-np", "2", "--config-file", config, "python", RANKS / "reduce_often.py"),
        env=variables,
    )
    assert launched.code == 0, launched.err
    for rank in (0, 1):
        assert launched.lines(rank) == ["right"], launched.err
    header, *rows = log.read_text().splitlines()
    assert header == HEADER
    columns = [row.split(",") for row in rows]
    assert len(columns) == 1 + 4
    assert all(float(column[6]) > 0 for column in columns)
    return columns


def test_a_threshold_that_was_chosen_stays(tmp_path: Path) -> None:
    columns = _tuned(tmp_path, "fusion_threshold_mb: 1")
    assert {column[5] for column in columns} == {str(2**20)}
    # One to warm up, as the cores suggest, and three that were tried, that one first; the last is
    # what was found.
    start = columns[0][4]
    assert start in {"0.1", "50"}
    assert [column[4] for column in columns[1:4]] == [start, "0", "0.05"]


def test_a_gathering_time_that_was_chosen_stays(tmp_path: Path) -> None:
    columns = _tuned(tmp_path, "cycle_time_ms: 2.5")
    assert {column[4] for column in columns} == {"2.5"}
    assert [column[5] for column in columns[:4]] == [*2 * [str(128 * 2**20)], "0", "32768"]


def test_variables_that_hold_white_space_choose_nothing(tmp_path: Path) -> None:
    blank = {"HOROVOD_FUSION_THRESHOLD": " ", "HOROVOD_CYCLE_TIME": " "}
    columns = _tuned(tmp_path, "cache_capacity: 100", **blank)
    assert [column[5] for column in columns[:4]] == [*2 * [str(128 * 2**20)], "0", "32768"]


def test_a_job_goes_on_without_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    log = tmp_path / "none" / "autotune.csv"
    variables = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(log)}
    launched = horovodrun("-np", "2", "python", RANKS / "reduce_often.py", env=variables)
    assert launched.code == 0, launched.err
    (line,) = launched.lines(0, "stderr")
    assert f"'{log}' cannot be written: No such file or directory; the job goes on" in line
    assert [launched.lines(rank) for rank in (0, 1)] == 2 * [["right"]]


def test_jobs_at_a_time_and_one_after_the_other_have_their_own_logs(tmp_path: Path) -> None:
    log = tmp_path / "autotune.csv"
    program = (
        "import os, horovod.array as hvd\n"
        "hvd.init(comm=[0, 1] if int(os.environ['HOROVOD_RANK']) < 2 else [2, 3])\n"
        "hvd.shutdown()\n"
        "hvd.init()"
    )
    launched = horovodrun(
        *("-np", "4", "--autotune", "--autotune-log-file", log, sys.executable, "-c", program)
    )
    assert launched.code == 0, launched.err
    for name in ("autotune.csv", "autotune.from2.csv", "autotune.1.csv"):
        assert (tmp_path / name).read_text().startswith(HEADER), name
    assert len(list(tmp_path.iterdir())) == 3
