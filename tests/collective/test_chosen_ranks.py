"""`init(comm=[...])`: some of the launcher's ranks as a job of their own."""

import json
import sys

import pytest

from collective.conftest import Launch
from collective.launching import horovodrun


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_listed_ranks_are_a_job_and_others_another(launch: Launch, transport: str) -> None:
    launched = launch(4, "chosen_ranks.py", env={"HOROVOD_TRANSPORT": transport})
    assert launched.code == 0, launched.err
    said, refusals = zip(*(json.loads(launched.lines(rank)[0]) for rank in range(4)), strict=True)
    # rank, size, local rank, local size, hosts, the sums' ends, the sum in the last rank's set
    everyone = [[rank, 4, rank, 4, 1, 6, 6, 3 if rank == 3 else 0] for rank in range(4)]
    halves = [
        [0, 2, 0, 2, 1, 2, 2, 0],
        [1, 2, 1, 2, 1, 4, 4, 1],
        [1, 2, 1, 2, 1, 2, 2, 2],
        [0, 2, 0, 2, 1, 4, 4, 0],
    ]
    outer = {0: [0, 2, 0, 2, 1, 3, 3, 0], 3: [1, 2, 1, 2, 1, 3, 3, 3]}
    for rank in range(4):
        between = [outer[rank]] if rank in outer else []
        assert said[rank] == [halves[rank]] * 2 + [everyone[rank], *between, everyone[rank]]
        expected = [
            f"ValueError: hvd.init(comm=[{rank}, 9]): there is no rank 9 in this job of 4",
            f"ValueError: hvd.init(comm=[{(rank + 1) % 4}]): this process is rank {rank}, which is",
            "ValueError: hvd.init(comm=[1, 1]): rank 1 stands in the list twice",
            "TypeError: hvd.init(comm=['1']) needs numbers of ranks, and '1' is none",
        ]
        for said_of_it, start in zip(refusals[rank][:4], expected, strict=True):
            assert said_of_it.startswith(start)
    for rank in (0, 1):
        assert refusals[rank][4] == (
            f"HorovodInternalError: hvd.init(comm=[{rank}, {rank + 2}]): rank {rank + 2} did not"
            " call init() with this list within 0.5 seconds"
        )


def test_a_rank_that_nobody_waits_for_may_end_and_one_that_is_listed_may_not() -> None:
    program = (
        "import os, horovod.array as hvd;"
        "rank = int(os.environ['HOROVOD_RANK']);"
        "rank < 2 and hvd.init(comm=[0, {other}])"
    )
    fine = horovodrun("-np", "3", sys.executable, "-c", program.format(other=1))
    assert fine.code == 0, fine.err
    waits = horovodrun("-np", "3", sys.executable, "-c", program.format(other=2))
    assert waits.code != 0
