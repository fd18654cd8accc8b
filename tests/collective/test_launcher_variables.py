"""What `horovodrun` makes of the variables of its environment."""

import sys

import pytest

from collective.launching import horovodrun

PRINTS = (sys.executable, "-c", "print('ran')")
JOINS = (sys.executable, "-c", "import horovod.array as hvd; hvd.init(); print(hvd.size())")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"HOROVOD_TRANSPORT": "mpi"}, "HOROVOD_TRANSPORT=mpi needs ranks that an MPI has started"),
        ({"HOROVOD_ELASTIC_TIMEOUT": "soon"}, "HOROVOD_ELASTIC_TIMEOUT='soon' is not accepted"),
        ({"HOROVOD_NUM_NCCL_STREAMS": "x"}, "HOROVOD_NUM_NCCL_STREAMS='x' is not accepted"),
        ({"HOROVOD_CPU_OPERATIONS": "mlsl"}, "HOROVOD_CPU_OPERATIONS='mlsl' is not accepted"),
    ],
)
def test_what_all_ranks_would_refuse_is_said_once(variables: dict[str, str], words: str) -> None:
    launched = horovodrun("-np", "2", *PRINTS, env=variables)
    assert (launched.code, launched.out) == (2, "")
    (line,) = launched.err.splitlines()
    assert line.startswith(f"horovodrun: error: {words}")


def test_a_wish_for_mpi_that_is_not_met_is_told() -> None:
    launched = horovodrun("-np", "1", *PRINTS, env={"HOROVOD_CONTROLLER": "mpi"})
    assert (launched.code, launched.out) == (0, "[0]<stdout>:ran\n")
    assert "warning: HOROVOD_CONTROLLER=mpi has no effect without --mpi" in launched.err


def test_a_transport_that_one_rank_alone_chooses_is_told() -> None:
    choosing = 'HOROVOD_TRANSPORT=$([ "$HOROVOD_RANK" = 1 ] && echo tcp || echo shm) exec "$@"'
    launched = horovodrun("-np", "3", "sh", "-c", choosing, "sh", *JOINS)
    assert launched.code == 0, launched.err
    said = (
        "horovod: rank 1: HOROVOD_TRANSPORT=tcp has no effect on this rank: rank 0's value counts"
    )
    assert launched.err.count("has no effect") == 1
    assert f"{said}, by which shm moves the bytes" in launched.err


def test_timeouts_may_be_longer_than_clocks_can_count() -> None:
    longest = {"HOROVOD_START_TIMEOUT": "1e18", "HOROVOD_ELASTIC_TIMEOUT": "1e300"}
    for more in ((), ("--start-timeout", "9999999999"), ("--min-np", "1")):
        launched = horovodrun("-np", "2", *more, *JOINS, env=longest)
        assert launched.code == 0, launched.err
        assert launched.lines(0) == launched.lines(1) == ["2"]
