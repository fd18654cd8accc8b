"""Ranks that `horovodrun` starts on this host share its cores."""

import sys

import pytest

from collective.launching import horovodrun
from horovod.runner.core_shares import usable_cores


@pytest.mark.parametrize("flags", [(), ("--min-np", "2")], ids=["static", "elastic"])
def test_ranks_share_the_hosts_cores(flags: tuple[str, ...]) -> None:
    program = (sys.executable, "-c", "import os; print(os.environ.get('OMP_NUM_THREADS'))")
    share = str(max(1, usable_cores() // 2))
    launched = horovodrun("-np", "2", *flags, *program)
    assert [launched.lines(rank) for rank in (0, 1)] == [[share], [share]]
    launched = horovodrun("-np", "2", *flags, "OMP_NUM_THREADS=9", *program)
    assert [launched.lines(rank) for rank in (0, 1)] == [["9"], ["9"]]
    assert horovodrun("-np", "1", *program).lines(0) == ["None"]
