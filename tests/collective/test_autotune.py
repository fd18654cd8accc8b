"""Autotuning of a whole job: what is logged, and that the job's results stay right."""

from pathlib import Path

from collective.launching import RANKS, horovodrun

HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score"
)


def _tuned(folder: Path, chosen: str) -> list[list[str]]:
    """The rows of the log of a job that has one sample to warm up and four to search."""
    log = folder / "autotune.csv"
    config = folder / "config.yaml"
    config.write_text(
        f"params:\n  {chosen}\nautotune:\n  enabled: true\n  log_file: {log}\n"
        "  warmup_samples: 1\n  steps_per_sample: 2\n  bayes_opt_max_samples: 4\n"
    )
    launched = horovodrun(
        *("-np", "2", "--config-file", config, "python", RANKS / "reduce_often.py")
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
    # One to warm up, as the cores suggest, and three that were tried; the last is what was found.
    assert columns[0][4] in {"0.1", "50"}
    assert [column[4] for column in columns[1:4]] == ["0", "0.05", "0.1"]


def test_a_gathering_time_that_was_chosen_stays(tmp_path: Path) -> None:
    columns = _tuned(tmp_path, "cycle_time_ms: 2.5")
    assert {column[4] for column in columns} == {"2.5"}
    assert [column[5] for column in columns[:4]] == [str(128 * 2**20), "0", "32768", "65536"]
