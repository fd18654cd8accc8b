"""Autotuning of a whole job: what is logged, and that the job's results stay right."""

from pathlib import Path

from collective.launching import RANKS, horovodrun

HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score"
)


def test_a_job_is_tuned_by_what_is_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "autotune.csv"
    config = tmp_path / "config.yaml"
    config.write_text(
        f"params:\n  fusion_threshold_mb: 1\nautotune:\n  enabled: true\n  log_file: {log}\n"
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
    # The threshold was chosen, so that it stays.
    assert {column[5] for column in columns} == {str(2**20)}
    # One to warm up, three that were tried; the last line is what was found.
    assert [column[4] for column in columns[:4]] == ["0.1", "0", "0.05", "0.1"]
    assert all(float(column[6]) > 0 for column in columns)
