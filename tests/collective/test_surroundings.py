"""Jobs where the system grants less than usual: no standard error, no shared memory, few files,
containers that tell nothing of themselves.
"""

import sys
from pathlib import Path

import pytest

from collective import networks
from collective.launching import horovodrun

SUM = "import horovod.array as hvd, numpy; hvd.init(); print(hvd.allreduce(numpy.ones(1))[0])"
# Every rank in a process namespace of its own whose /proc is hidden, so that they look like ranks
# of one host. Where rank 1 runs, another process has the number that rank 0 has where that runs.
APART = """
mount -t tmpfs none /proc
if [ "$HOROVOD_RANK" = 1 ]; then sleep 1000 & export OTHER=$!; fi
"$0" -c "$1"
"""
LOSE_THE_OTHER = """
import os, signal
import horovod.array as hvd, numpy
hvd.init()
numbers = hvd.allgather(numpy.array([os.getpid()]))
if hvd.rank() == 1:
    assert int(os.environ["OTHER"]) == numbers[0], (os.environ["OTHER"], numbers)
    os.kill(numbers[0], signal.SIGKILL)
for _ in range(300): hvd.allreduce(numpy.ones(1))
print(hvd.allreduce(numpy.ones(1), name="last", op=hvd.Sum)[0])
"""
ON_RANK_0 = 'if [ "$HOROVOD_RANK" = 0 ]; then {}; fi; exec "$0" -c "$1"'


@pytest.mark.parametrize("ranks", ["1", "2"])
def test_a_closed_standard_error_is_no_reason_to_fail(ranks: str) -> None:
    closed = ("-np", ranks, "sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, SUM)
    # Said to have no effect, where there is somebody to tell it to.
    launched = horovodrun(*closed, env={"HOROVOD_NUM_NCCL_STREAMS": "2"})
    assert launched.code == 0, launched.err
    assert launched.lines(0) == ["1.0"]


def test_another_file_in_the_place_of_standard_error_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other"
    opened = f"import os; os.dup2(os.open({str(other)!r}, os.O_WRONLY | os.O_CREAT), 2); {SUM}"
    closed = ("-np", "2", "sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, opened)
    warned = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(tmp_path / "none" / "log")}
    launched = horovodrun(*closed, env=warned)
    assert launched.code == 0, launched.err
    assert launched.lines(0) == ["1.0"]
    assert other.read_bytes() == b""


def test_it_is_said_why_ranks_of_a_host_do_not_share_memory() -> None:
    small_files = ON_RANK_0.format("ulimit -f 100")
    launched = horovodrun("-np", "2", "sh", "-c", small_files, sys.executable, SUM)
    assert launched.code == 0, launched.err
    assert [launched.lines(rank) for rank in (0, 1)] == 2 * [["1.0"]]
    (line,) = launched.lines(0, "stderr")
    assert "All ranks send through sockets, which takes longer, as another way cannot be" in line
    assert "File too large" in line
    assert not launched.lines(1, "stderr")


def test_a_hard_limit_that_leaves_nothing_to_spare_is_enough() -> None:
    few = 'ulimit -n 40; exec "$0" -c "$1"'
    launched = horovodrun("-np", "2", "sh", "-c", few, sys.executable, SUM)
    assert launched.code == 0, launched.err
    assert launched.lines(0) == ["1.0"]


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_process_that_has_a_ranks_number_elsewhere_is_not_taken_for_it(transport: str) -> None:
    if why := networks.missing():
        pytest.skip(f"no namespaces: {why}")
    apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "sh", "-c", APART)
    program = ("-np", "2", *apart, sys.executable, LOSE_THE_OTHER)
    launched = horovodrun(*program, env={"HOROVOD_TRANSPORT": transport})
    assert launched.code == 0, launched.err
    assert [launched.lines(rank) for rank in (0, 1)] == 2 * [["2.0"]]
