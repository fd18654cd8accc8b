"""`horovod.run`: a function on all ranks, its results and its failures."""

import inspect
from typing import Any

import pytest

import horovod
import horovod.runner
from horovod.runner.launch import is_gloo_used


def summed(value: float, *, big: int = 0) -> tuple[int, float, int]:
    import array  # noqa: PLC0415 - this runs on the ranks

    import horovod.array as hvd  # noqa: PLC0415 - as above

    hvd.init()
    total = hvd.allreduce(array.array("d", [value + hvd.rank()]), op=hvd.Sum)
    return hvd.rank(), float(next(iter(total))), len(bytes(big))


def test_results_come_by_rank() -> None:
    offset = 10.0
    big = bytes(2_500_000)  # more than one value of the store holds, both ways

    def on_rank(extra: bytes) -> Any:
        return (*summed(offset), extra)

    results = horovod.run(on_rank, (big,), num_proc=2, network_interfaces="lo")
    assert results == [(0, 21.0, 0, big), (1, 21.0, 0, big)]


def test_an_elastic_job_gives_the_results_of_the_least_ranks() -> None:
    assert horovod.runner.run(summed, (1.0,), num_proc=2, min_num_proc=1) == [(0, 3.0, 0)]


def test_a_failure_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise LookupError("the moon is not there")

    with pytest.raises(RuntimeError, match="The first process to do so was:\nProcess name: 0"):
        horovod.run(fails)
    assert "LookupError: the moon is not there" in capfd.readouterr().err


def test_a_failure_of_an_elastic_job_is_raised() -> None:
    def fails() -> None:
        import horovod.array as hvd  # noqa: PLC0415 - this runs on the ranks

        hvd.init()
        raise LookupError

    with pytest.raises(RuntimeError, match="to do so was:\nProcess name: 0\nExit code: 1"):
        horovod.run(fails, min_num_proc=1)


def test_arguments_of_mpi_are_idle_without_it() -> None:
    with pytest.warns(UserWarning, match="mpi_args has no effect without use_mpi=True"):
        assert horovod.run(max, (1, 2), mpi_args="--verbose") == [2]


def test_positions_are_horovods() -> None:
    names = list(inspect.signature(horovod.run).parameters)
    assert names[10:15] == [
        "hostfile", "start_timeout", "ssh_port", "ssh_identity_file", "disable_cache",
    ]  # fmt: skip
    assert names[20:26] == [
        "network_interface", "executable", "np", "min_np", "max_np", "host_discovery_script",
    ]  # fmt: skip


def test_arguments_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="hosts and hostfile only allow one"):
        horovod.run(summed, hosts="localhost:1", hostfile="hosts")
    with pytest.raises(ValueError, match="use_gloo and use_mpi only allow one"):
        horovod.run(summed, use_gloo=True, use_mpi=True)
    with pytest.raises(ValueError, match="An elastic job needs the built-in launcher"):
        horovod.run(summed, use_mpi=True, min_num_proc=1)
    with (
        pytest.warns(DeprecationWarning, match="`np` of horovod.run is deprecated"),
        pytest.raises(ValueError, match="Requested more processes"),
    ):
        horovod.run(summed, np=3, hosts="localhost:2")
    assert is_gloo_used()
    assert not is_gloo_used(use_mpi=True)
