"""Ranks that do not come: who they are and where the others wait is said, and the job ends."""

import re

import pytest

from collective.conftest import Launch
from collective.launching import RANKS


def _line_of(program: str, mark: str) -> int:
    lines = (RANKS / program).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if mark in line)


def test_a_stall_is_described_and_ends_the_job(launch: Launch) -> None:
    launched = launch(
        *(2, "stall.py"),
        env={
            "HOROVOD_STALL_CHECK_TIME_SECONDS": "0.5",
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "8",  # time for all to say where they wait
        },
    )
    site = f"stall.py:{_line_of('stall.py', '# here')})"
    missed = r"allreduce 'allreduce\.missed', since \d+ s: missing ranks: 1; ready ranks: 0 \(waits"
    for rank, name in ((0, "missed"), (1, "another")):
        text = "\n".join(launched.lines(rank))
        assert f'{name} failed: One or more rank (marked by "!") is stalled' in text, launched.err
        # Whichever was asked for first, and both where that was at about the same time.
        assert "1: [allreduce.missed!]" in text or "0: [allreduce.another!]" in text, text
        assert re.search(missed + r" at \S*" + re.escape(site), text), text
        assert f"ready ranks: 1 (waits at {RANKS / site}" in text
    warnings = "\n".join(launched.lines(0, "stderr"))
    assert re.search(r"\[\d{4}-\d\d-\d\d [\d:.]{15}: W horovod\] One or more tensors", warnings)
    assert not launched.lines(1, "stderr")


def test_a_warning_that_nobody_reads_keeps_rank_0_from_nothing(launch: Launch) -> None:
    times = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.2", "HOROVOD_HEARTBEAT_TIMEOUT_SECONDS": "4"}
    launched = launch(2, "unread_stderr.py", env=times)
    assert launched.lines(0) == ["fine", "told"], launched.out
    assert launched.lines(1) == ["fine", "nothing to tell"], launched.out


@pytest.mark.torch
def test_a_stall_points_past_pytorch_to_the_users_line(launch: Launch) -> None:
    times = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.5", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "8"}
    launched = launch(2, "stall_in_torch.py", env=times)
    for rank in (0, 1):
        text = "\n".join(launched.lines(rank))
        for waiting, mark in ((0, "# alone"), (1, "# together")):
            site = RANKS / f"stall_in_torch.py:{_line_of('stall_in_torch.py', mark)}"
            assert f"ready ranks: {waiting} (waits at {site})" in text, text + launched.err
