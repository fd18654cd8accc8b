"""Ranks that come later than others wait: these try again, as often as it takes."""

import sys

import pytest

from collective.launching import horovodrun

PROGRAM = """
import sys, time, horovod.array as hvd, numpy as np, os
rank = int(os.environ["HOROVOD_RANK"])
late, comm = eval(sys.argv[1])
time.sleep(late[rank])
for again in range(2):
    for attempt in range(30):
        try:
            hvd.init(comm=comm)
            break
        except hvd.HorovodInternalError:
            time.sleep(0.1)
    print(hvd.allreduce(np.ones(1), op=hvd.Sum)[0], hvd.rank(), flush=True)
    hvd.shutdown()
"""


@pytest.mark.parametrize("comm", [None, [1, 0, 2]], ids=["all", "listed"])
@pytest.mark.parametrize("late", [(2.5, 0, 0), (0, 2.5, 0), (2, 0, 4), (0, 2, 4)])
def test_ranks_that_try_again_meet_those_who_come_late(
    late: tuple[float, ...], comm: list[int] | None
) -> None:
    launched = horovodrun(
        "-np", "3", sys.executable, "-c", PROGRAM, repr((late, comm)),
        env={"HOROVOD_START_TIMEOUT": "1"},
    )  # fmt: skip
    assert launched.code == 0, launched.err
    for rank in range(3):
        number = comm.index(rank) if comm else rank
        assert launched.lines(rank) == [f"3.0 {number}"] * 2
